"""The shared part of commands that act on messages: by ids, or on all that match a filter."""

import sys
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from punctual.cli.api import WorkerApi
from punctual.cli.arguments import add_filter, add_form, add_worker, filter_of
from punctual.cli.by_id import send_commands
from punctual.cli.errors import WrongUse
from punctual.cli.exits import Exit
from punctual.cli.job import at_most, give_job
from punctual.cli.parser import Options, Parser
from punctual.cli.times import moment_ms


class _Row(msgspec.Struct):
    """A line of `punctual list --format json`; other fields are ignored."""

    id: str


_row: Final = msgspec.json.Decoder(_Row).decode


def add_action(parser: Parser) -> None:
    """Add the arguments for ids or a filter, and for limits and confirmation."""
    about = "ID of a message; - reads IDs from stdin, one per line, or lines of `punctual list --format json`"
    parser.add_argument("ids", nargs="*", metavar="ID", help=about)
    about = "the same, for IDs that are or begin with -"
    parser.add_argument("--id", action="append", default=[], dest="literal", metavar="ID", help=about)
    about = "only if the message is due exactly then: RFC 3339 or epoch milliseconds"
    parser.add_argument("--if-due", type=moment_ms, metavar="TIME", help=about)
    add_form(parser)
    add_filter(parser)
    group = parser.add_argument_group("with a filter: a job changes all matching messages")
    group.add_argument("--dry-run", action="store_true", help="only count the messages")
    group.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    group.add_argument("--at-most", type=at_most, metavar="N", help="change at most N messages, without counting first")
    group.add_argument("--no-wait", action="store_true", help="start the job, print its ID and exit")
    add_worker(parser)


def run_action(options: Options, action: str, body: Mapping[str, Any]) -> Exit:
    """Run an action on the messages in the options, with the API's other arguments in `body`, and write the outcome."""
    wanted = filter_of(options)
    if bool(options.ids or options.literal) == bool(wanted):
        both = "give either IDs or a filter, not both" if wanted else "give the messages: either IDs or a filter"
        raise WrongUse(f"{both}: `punctual {action} --help` shows how")
    with WorkerApi.of(options) as api:
        if wanted:
            if options.if_due is not None:
                raise WrongUse("--if-due works only with IDs; with a filter, use --due-from and --due-to")
            return give_job(api, options, action, wanted, body)
        if options.dry_run or options.no_wait or options.at_most is not None:
            raise WrongUse("--dry-run, --at-most and --no-wait work only with a filter")
        ids = (_ids(options.ids) if options.ids else []) + options.literal
        if not all(ids):
            raise WrongUse("an ID is empty")
        return send_commands(api, action, ids, {**body, "if_due": options.if_due}, options.format)


def _ids(given: list[str]) -> list[str]:
    if "-" not in given:
        return given
    if len(given) > 1:
        raise WrongUse("- reads IDs from stdin and cannot be combined with other IDs. For the ID -, use --id")
    return _read()


def _read() -> list[str]:
    try:
        lines = sys.stdin.buffer.read().decode().split("\n")  # ids may contain the other characters that end lines
    except UnicodeDecodeError as error:
        raise WrongUse(f"stdin is not UTF-8 text: {error}") from error
    ids = [_id_in(line.removesuffix("\r")) for line in lines if line.strip()]
    if not ids:
        raise WrongUse("there is no ID on stdin; write one per line")
    return ids


def _id_in(line: str) -> str:
    """Return the id in a line: the line itself, or the id of a JSON row, where an id may have line breaks."""
    if line.startswith("{"):
        try:
            return _row(line).id
        except msgspec.DecodeError:
            pass  # an id may begin like JSON
    return line
