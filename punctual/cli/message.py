"""`punctual show`: shows a pending message, and the history of its id."""

from collections.abc import Mapping
from typing import Any

import msgspec

from punctual.cli.api import WorkerApi, message_at
from punctual.cli.arguments import add_form, add_worker
from punctual.cli.errors import NotAllowed
from punctual.cli.exits import Exit
from punctual.cli.exported import bytes_of
from punctual.cli.listing import goes_to
from punctual.cli.parser import Options, Parser
from punctual.cli.table import JSON, write_json
from punctual.cli.terminal import legible, say, show_bytes, styled, write
from punctual.cli.times import now_ms, written
from punctual.durations import duration, relative

_NOT_FOUND = 404


def add_arguments(parser: Parser) -> None:
    """Add the argument for the id."""
    parser.add_argument("id", metavar="ID", help="message ID")
    parser.add_argument("--raw", action="store_true", help="write only the value, byte for byte")
    add_form(parser)
    add_worker(parser)


def run(options: Options) -> Exit:
    """Show the message; if it is not pending any more, show how it ended."""
    with WorkerApi.of(options) as api:
        path, query = message_at(options.id)
        answer = api.ask("GET", path, {**query, "life": "1", "whole": "1"})
        pending = answer.status in range(200, 300)
        if not pending and (answer.status != _NOT_FOUND or "life" not in answer.body):
            raise api.failure(answer)
    message = answer.body
    if options.raw and pending:
        _write_value(message)
    elif options.format == JSON:
        write_json(message)
    elif not options.raw:
        _write_lines(message, pending=pending)
    if pending:
        return Exit.DONE
    say(f"no message with the id {legible(options.id)} is pending{_ending(message['life'])}")
    return Exit.NOT_FOUND


def _write_value(row: dict[str, Any]) -> None:
    if row.get("masked"):
        raise NotAllowed("values are masked (DELAY_WEB_PAYLOADS)")
    show_bytes(bytes_of(row.get("value")) or b"")


def _write_lines(message: dict[str, Any], *, pending: bool) -> None:
    at_ms = now_ms()
    lines = _facts(message, at_ms) if pending else []
    width = max((len(name) for name, _ in lines), default=0)
    for name, text in lines:
        write(f"{styled(name.ljust(width), 'bold')}  {legible(text)}")
    if message["life"]:
        write(styled("life", "bold"))
    for event in message["life"]:
        late = f", {duration(event['late'])} late" if event.get("late") else ""
        reason = f", {event['reason']}" if event.get("reason") else ""
        when = f"{written(event['at'])}  {relative(event['at'], at_ms)}"
        write(f"  {when}  {legible(event['event'] + late + reason)}")
    if message["looked_back_to_ms"] is not None:
        say(f"events before {written(message['looked_back_to_ms'])} were not scanned")


def _facts(row: dict[str, Any], at_ms: int) -> list[tuple[str, str]]:
    requested_ms, masked = row.get("asked_ms"), row.get("masked", False)
    facts = [
        ("id", row["id"]),
        ("to", goes_to(row)),
        ("due", due_of(row, at_ms)),
        ("scheduled", f"{written(requested_ms)}, {relative(requested_ms, at_ms)}" if requested_ms is not None else ""),
        ("source", row["source"]),
        ("partition", str(row["partition"])),
        ("occurrence", str(row.get("occurrence", ""))),
        ("attempts", str(row.get("attempts", ""))),
        *((name, duration(row[name])) for name in ("max-late", "dedupe", "no-later") if name in row),
        *((name, str(row[name])) for name in ("if-late", "on-failure", "to-partition") if name in row),
        ("key", "masked" if masked else text_of(row.get("key"))),
        *((f"header {name}", "masked" if masked else text_of(value)) for name, value in row.get("headers", ())),
        ("bytes", f"{row.get('value_bytes', 0):,}"),
        ("value", "masked" if masked else text_of(row.get("value"))),
    ]
    return [(name, text) for name, text in facts if text]


def due_of(row: dict[str, Any], at_ms: int) -> str:
    """Return when a message is due, or since when it is paused."""
    if not row.get("paused"):
        return f"{written(row['due_ms'])}, {relative(row['due_ms'], at_ms)}"
    since_ms = row.get("paused_since_ms")
    return "paused" if since_ms is None else f"paused since {written(since_ms)}, {relative(since_ms, at_ms)}"


def text_of(field: str | Mapping[str, str] | None) -> str:
    """Return bytes from the API in readable form: text, JSON on one line, or the number of bytes."""
    raw = bytes_of(field)
    if raw is None:
        return "null"
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return f"{len(raw):,} bytes that are not text; --raw writes them"
    try:
        return msgspec.json.format(text, indent=0) if text[:1] in "{[" else text
    except msgspec.DecodeError:
        return text


def _ending(life: list[dict[str, Any]]) -> str:
    endings = ("delivered", "cancelled", "dropped", "rejected", "parked")
    last = next((event for event in reversed(life) if event["event"] in endings), None)
    return "" if last is None else f": it was {last['event']} {relative(last['at'], now_ms())}"
