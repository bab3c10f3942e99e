"""The shared part of `pause`, `resume` and `rate`, which control a destination or a recurring message."""

from collections.abc import Mapping
from typing import Any

from punctual.cli.api import WorkerApi, escaped
from punctual.cli.arguments import add_form, add_worker
from punctual.cli.by_id import send_commands
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser
from punctual.cli.table import JSON, write_json
from punctual.cli.terminal import state_line, write


def add_control(parser: Parser) -> None:
    """Add the arguments for the output format and the worker."""
    add_form(parser)
    add_worker(parser)


def add_object(parser: Parser) -> None:
    """Add the arguments for a destination, or the id of a recurring message."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("destination", nargs="?", metavar="DESTINATION", help="a topic, or the origin of URLs")
    group.add_argument("--id", metavar="ID", help="ID of a recurring message, instead of a destination")


def command_series(options: Options, action: str) -> Exit:
    """Pause or resume the recurring message in the options, and write the outcome. Raises a CommandError."""
    with WorkerApi.of(options) as api:
        return send_commands(api, action, [options.id], {}, options.format)


def run_control(options: Options, action: str, body: Mapping[str, Any]) -> Exit:
    """Send an action for the destination in the options, and write the outcome. Raises a CommandError."""
    to = options.destination
    with WorkerApi.of(options) as api:
        answer = api.post(f"/destinations/{escaped(to)}/{action}", body)
        if "outcome" not in answer.body:
            raise api.failure(answer)
    if options.format == JSON:
        write_json({"destination": to, **answer.body})
    else:
        write(state_line(to, answer.body.get("sentence") or answer.body["detail"]))
    return Exit.DONE
