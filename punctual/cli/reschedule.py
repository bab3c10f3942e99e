"""`punctual reschedule`: gives pending messages another due time."""

from datetime import timedelta
from typing import Any

from punctual.cli.action import add_action, run_action
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser
from punctual.cli.times import moment_ms, span


def add_arguments(parser: Parser) -> None:
    """Add the arguments for the new due time, and for ids or a filter."""
    group = parser.add_mutually_exclusive_group(required=True)
    about = "new due time: RFC 3339, epoch milliseconds, now, or from now: 15m, 2h, 1d"
    group.add_argument("--at", type=moment_ms, metavar="TIME", help=about)
    group.add_argument(
        "--after", type=span, metavar="SPAN", help="new delay, from when the worker processes the command: 15m, 2h, 1d"
    )
    add_action(parser)


def run(options: Options) -> Exit:
    """Reschedule the messages."""
    body: dict[str, Any] = {"at": options.at}
    if options.after is not None:
        body = {"after": options.after // timedelta(milliseconds=1)}
    return run_action(options, "reschedule", body)
