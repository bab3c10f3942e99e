"""`punctual show`: shows a pending message, and the history of its id."""

import base64
from typing import Any

import msgspec

from punctual.cli.api import WorkerApi, message_at
from punctual.cli.arguments import add_form, add_worker
from punctual.cli.errors import NotAllowed
from punctual.cli.exits import Exit
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
    told = answer.body
    if options.raw and pending:
        _write_value(told)
    elif options.format == JSON:
        write_json(told)
    elif not options.raw:
        _write_lines(told, pending=pending)
    if pending:
        return Exit.DONE
    say(f"no message with the id {legible(options.id)} is pending{_ending(told['life'])}")
    return Exit.NOT_FOUND


def _write_value(row: dict[str, Any]) -> None:
    if row["masked"]:
        raise NotAllowed("values are masked (DELAY_WEB_PAYLOADS)")
    show_bytes(base64.b64decode(row["value"] or ""))


def _write_lines(told: dict[str, Any], *, pending: bool) -> None:
    at_ms = now_ms()
    lines = _facts(told, at_ms) if pending else []
    width = max((len(name) for name, _ in lines), default=0)
    for name, text in lines:
        write(f"{styled(name.ljust(width), 'bold')}  {legible(text)}")
    if told["life"]:
        write(styled("life", "bold"))
    for event in told["life"]:
        late = f", {duration(event['late'])} late" if event.get("late") else ""
        reason = f", {event['reason']}" if event.get("reason") else ""
        when = f"{written(event['at'])}  {relative(event['at'], at_ms)}"
        write(f"  {when}  {legible(event['event'] + late + reason)}")
    if told["looked_back_to_ms"] is not None:
        say(f"events before {written(told['looked_back_to_ms'])} were not scanned")


def _facts(row: dict[str, Any], at_ms: int) -> list[tuple[str, str]]:
    asked = row["asked_ms"]
    policies = row["policies"].items()
    found = [
        ("id", row["id"]),
        ("to", goes_to(row)),
        ("due", due_of(row, at_ms)),
        ("scheduled", f"{written(asked)}, {relative(asked, at_ms)}" if asked is not None else ""),
        ("source", row["source"]),
        ("partition", str(row["partition"])),
        ("occurrence", str(row["recurring"] or "")),
        ("attempts", str(row["attempts"] or "")),
        *((name.removesuffix("_ms").replace("_", "-"), _policy(name, value)) for name, value in policies),
        ("key", "masked" if row["masked"] else text_of(row["key"])),
        *((f"header {name}", "masked" if row["masked"] else text_of(value)) for name, value in row["headers"]),
        ("bytes", f"{row['value_bytes']:,}"),
        ("value", "masked" if row["masked"] else text_of(row["value"])),
    ]
    return [(name, text) for name, text in found if text]


def due_of(row: dict[str, Any], at_ms: int) -> str:
    """Return when a message is due, or since when it is paused."""
    series = row.get("series") or {}
    if not series.get("paused"):
        return f"{written(row['due_ms'])}, {relative(row['due_ms'], at_ms)}"
    since_ms = series.get("paused_since_ms")
    return "paused" if since_ms is None else f"paused since {written(since_ms)}, {relative(since_ms, at_ms)}"


def _policy(name: str, value: Any) -> str:
    return duration(value) if name.endswith("_ms") else str(value)


def text_of(encoded: str | None) -> str:
    """Return base64 bytes from the API in readable form: text, JSON on one line, or the number of bytes."""
    if encoded is None:
        return "null"
    raw = base64.b64decode(encoded)
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
