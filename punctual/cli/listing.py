"""`punctual list`: lists pending messages that match a filter, by due time."""

from typing import Any, Final

from punctual.cli.api import WorkerApi, missing
from punctual.cli.arguments import add_filter, add_form, add_watch, add_worker, count_of, filter_of
from punctual.cli.exits import Exit
from punctual.cli.exported import bytes_of
from punctual.cli.pages import pages
from punctual.cli.parser import Options, Parser
from punctual.cli.table import Column, Table
from punctual.cli.terminal import say
from punctual.cli.times import now_ms, written
from punctual.cli.watch import shown
from punctual.durations import relative

_LIMIT: Final = 50
_LONGEST_KEY: Final = 24


def add_arguments(parser: Parser) -> None:
    """Add the arguments for a filter and a limit."""
    about = f"maximum number of rows (default: {_LIMIT}); 0 for all"
    parser.add_argument("--limit", type=count_of(0), default=_LIMIT, metavar="COUNT", help=about)
    add_form(parser)
    add_watch(parser)
    add_filter(parser)
    add_worker(parser)


def run(options: Options) -> Exit:
    """List the messages."""
    with WorkerApi.of(options) as api:
        return shown(options, lambda options: _list(api, options))


def _list(api: WorkerApi, options: Options) -> Exit:
    left, shown, at_ms = options.limit or None, 0, now_ms()
    columns = (
        Column("DUE", lambda row: "paused" if is_paused(row) else written(row["due_ms"])),
        Column("", lambda row: "" if is_paused(row) else relative(row["due_ms"], at_ms)),
        Column("ID", lambda row: row["id"]),
        Column("TO", goes_to),
        Column("KEY", _key),
        Column("BYTES", lambda row: f"{row.get('value_bytes', 0):,}", number=True),
    )
    table = Table(columns, options.format)
    for page in pages(api, filter_of(options), limit=left):
        table.add(page["rows"])
        shown += len(page["rows"])
        lacks = missing(page)
        if lacks is not None:
            raise lacks
    if not shown:
        say("no pending messages match" if filter_of(options) else "no messages are pending")
    elif shown == left:
        say(f"first {shown:,} shown; use --limit for more, or a filter")
    return Exit.DONE


def is_paused(row: dict[str, Any]) -> bool:
    """Return whether a row is a paused recurring message."""
    return bool(row.get("paused"))


def goes_to(row: dict[str, Any]) -> str:
    """Return the destination of a message: a topic, a topic of another cluster, or a URL."""
    return f"{row['to']}@{row['to-cluster']}" if "to-cluster" in row else str(row["to"])


def _key(row: dict[str, Any]) -> str:
    if row.get("masked"):
        return "masked"
    text = (bytes_of(row.get("key")) or b"").decode(errors="backslashreplace")
    return text if len(text) <= _LONGEST_KEY else f"{text[: _LONGEST_KEY - 1]}…"
