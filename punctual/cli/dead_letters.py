"""`punctual dead-letters`: lists dead letters, the newest first, or shows one."""

from typing import Any, Final

from punctual.cli.api import WorkerApi
from punctual.cli.arguments import add_form, add_watch, add_worker, count_of
from punctual.cli.errors import CommandError, NotAllowed, WrongUse
from punctual.cli.exits import Exit
from punctual.cli.exported import bytes_of
from punctual.cli.message import text_of
from punctual.cli.parser import Options, Parser
from punctual.cli.table import JSON, Column, Table, write_json
from punctual.cli.terminal import legible, say, show_bytes, styled, write
from punctual.cli.times import now_ms, past_ms, written
from punctual.cli.watch import shown
from punctual.durations import relative

_LIMIT, _PAGE = 50, 500
_FILTER: Final = ("reason", "to", "id_prefix", "source", "written_from", "written_to", "sent_again", "namespace")


def add_arguments(parser: Parser) -> None:
    """Add the arguments for one dead letter, or for a filter and a limit."""
    parser.add_argument("place", nargs="?", metavar="PARTITION-OFFSET", help="show this dead letter in full")
    parser.add_argument("--raw", action="store_true", help="with PARTITION-OFFSET: write only the value, byte for byte")
    about = f"maximum number of rows (default: {_LIMIT}); 0 for all"
    parser.add_argument("--limit", type=count_of(0), default=_LIMIT, metavar="COUNT", help=about)
    add_form(parser)
    add_watch(parser)
    group = parser.add_argument_group("filter: dead letters that match all of these")
    group.add_argument("--reason", metavar="CODE", help="reason code, such as unknown-topic")
    group.add_argument("--to", metavar="TOPIC", help="destination: a topic, a URL, or the beginning of a URL")
    group.add_argument("--id-prefix", metavar="TEXT", help="IDs (without an ID, sources) that begin with TEXT")
    about = "requested through this topic, topic-partition, or topic-partition-offset"
    group.add_argument("--source", metavar="SOURCE", help=about)
    when = "RFC 3339, epoch milliseconds, or before now: 15m, 2h, 1d"
    group.add_argument("--written-from", type=past_ms, metavar="TIME", help=f"written at this time or later: {when}")
    group.add_argument("--written-to", type=past_ms, metavar="TIME", help="written at this time or earlier")
    group.add_argument("--sent-again", choices=("yes", "no"), help="whether it has been sent again")
    group.add_argument("--namespace", metavar="NAME[,NAME…]", help="IDs of these namespaces")
    add_worker(parser)


def run(options: Options) -> Exit:
    """List dead letters, or show one."""
    if options.raw and options.place is None:
        raise WrongUse("--raw needs one dead letter: give its PARTITION-OFFSET")
    if options.place is not None and not _is_place(options.place):
        raise WrongUse(f"{options.place[:64]!r} is not a PARTITION-OFFSET. Use one of the list, such as 3-1042")
    with WorkerApi.of(options) as api:
        show = _list if options.place is None else _show
        return shown(options, lambda options: show(api, options))


def _is_place(text: str) -> bool:
    numbers = text.split("-")
    return len(numbers) == 2 and all(number.isascii() and number.isdigit() for number in numbers)  # noqa: PLR2004 - a pair


def _list(api: WorkerApi, options: Options) -> Exit:
    wanted = {name: getattr(options, name) for name in _FILTER}
    left, shown, cursor = options.limit or None, 0, None
    table = Table(_COLUMNS, options.format)
    while left is None or shown < left:
        limit = _PAGE if left is None else min(_PAGE, left - shown)
        page = api.get("/dead-letters", {**wanted, "limit": limit, "cursor": cursor})
        table.add(page["rows"])
        shown += len(page["rows"])
        cursor = page["next"]
        if cursor is None:
            break
    if not shown:
        say("there are no dead letters" if not any(wanted.values()) else "no dead letter matches")
    elif cursor is not None:
        say(f"these are the newest {shown:,}: show more with --limit, or others with a filter")
    return Exit.DONE


_COLUMNS: Final = (
    Column("PLACE", lambda row: f"{row['partition']}-{row['offset']}"),
    Column("WRITTEN", lambda row: written(row["at_ms"])),
    Column("REASON", lambda row: row["reason"]),
    Column("ID", lambda row: row["id"] or ""),
    Column("TO", lambda row: row["to"] or ""),
    Column("BYTES", lambda row: f"{row['value_bytes']:,}", number=True),
    Column("SENT AGAIN", lambda row: "" if row["sent_again"] is None else written(row["sent_again"]["at_ms"])),
)


def _show(api: WorkerApi, options: Options) -> Exit:
    letter = api.get(f"/dead-letters/{options.place}")
    if options.raw:
        if letter["masked"]:
            raise NotAllowed("values are masked for you (DELAY_WEB_PAYLOADS)")
        if letter["incomplete"]:
            request = f"the request {letter['source']}" if letter["source"] else "its request"
            raise CommandError(
                f"the value of {options.place} was too large for a dead letter and was left out: {request} has it, "
                "as long as Kafka keeps that"
            )
        show_bytes(bytes_of(letter["value"]) or b"")
    elif options.format == JSON:
        write_json(letter)
    else:
        lines = [(name, text) for name, text in _facts(letter) if text]
        width = max(len(name) for name, _ in lines)
        for name, text in lines:
            write(f"{styled(name.ljust(width), 'bold')}  {legible(text)}")
    return Exit.DONE


def _facts(letter: dict[str, Any]) -> list[tuple[str, str]]:
    again, masked = letter["sent_again"], letter["masked"]
    value = "too large to be stored" if letter["incomplete"] else text_of(letter["value"])
    return [
        ("place", f"{letter['partition']}-{letter['offset']}"),
        ("reason", letter["reason"]),
        ("error", letter["error"]),
        ("written", f"{written(letter['at_ms'])}, {relative(letter['at_ms'], now_ms())}"),
        ("sent again", "" if again is None else f"{written(again['at_ms'])} by {again['by']}"),
        ("source", letter["source"]),
        ("id", letter["id"] or ""),
        ("to", letter["to"] or ""),
        ("key", "masked" if masked else text_of(letter["key"])),
        *((f"header {name}", "masked" if masked else text_of(text)) for name, text in letter["headers"]),
        ("bytes", f"{letter['value_bytes']:,}"),
        ("value", "masked" if masked else value),
    ]
