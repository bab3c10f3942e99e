"""`punctual tail`: writes the events of an installation as they arrive, through Kafka."""

import sys
from typing import Any, Final

from punctual.cli.arguments import add_form
from punctual.cli.exits import Exit
from punctual.cli.kafka import add_kafka
from punctual.cli.parser import Options, Parser
from punctual.cli.table import JSON, Column, Table
from punctual.cli.terminal import say
from punctual.cli.times import past_ms, written
from punctual.durations import duration

#: The types of events (docs/reference/records.md#events).
EVENTS: Final = (
    *("accepted", "delivered", "cancelled", "replaced", "dropped", "rejected", "parked"),
    *("rescheduled", "attempted", "refused", "duplicate", "unknown", "conflict", "stale", "deferred", "skipped"),
    "truncated",
)


def add_arguments(parser: Parser) -> None:
    """Add the arguments for a filter of events, and the start."""
    about = "start at: RFC 3339, epoch milliseconds, or before now: 15m, 2h, 1d (default: now)"
    parser.add_argument("--since", type=past_ms, metavar="TIME", help=about)
    parser.add_argument("--no-follow", action="store_true", help="exit at the last event")
    add_form(parser)
    group = parser.add_argument_group("filter: events that match all of these")
    group.add_argument("--id", help="message ID, with its occurrences if it recurs")
    group.add_argument("--to", metavar="TOPIC", help="destination: a topic, or a URL (its origin counts)")
    about = f"kind of event; repeat it for more: {', '.join(EVENTS)}"
    group.add_argument("--event", action="append", choices=EVENTS, metavar="EVENT", help=about)
    add_kafka(parser)


def run(options: Options) -> Exit:
    """Write the events until Ctrl-C, or to the end."""
    import asyncio  # noqa: PLC0415 - not needed for help

    from punctual.cli.events import follow  # noqa: PLC0415 - the same

    asyncio.run(_tell(options, follow(options)))
    return Exit.DONE


async def _tell(options: Options, batches: Any) -> None:
    table, shown = Table(_COLUMNS, options.format), 0
    async for events in batches:
        fitting = [event for event in events if _fits(event, options)]
        table.add(fitting)
        sys.stdout.flush()
        shown += len(fitting)
    if not shown and options.format != JSON:
        say("no event matches")


def _fits(event: dict[str, Any], options: Options) -> bool:
    id_, to = event["id"], event.get("to") or ""
    return (
        (options.event is None or event["event"] in options.event)
        and (options.id is None or id_ == options.id or _is_occurrence(id_, options.id))
        and (options.to is None or to == options.to or ("://" in to and f"{options.to}/".startswith(f"{to}/")))
    )


def _is_occurrence(id_: str, of: str) -> bool:
    name, _, due = id_.rpartition("@")
    return name == of and due.isdecimal()


def _rest(event: dict[str, Any]) -> str:
    late = [f"{duration(event['late'])} late"] if event.get("late") else []
    due = [f"due {written(event['due'])}"] if event.get("due") and event["event"] in _ABOUT_DUE else []
    return ", ".join([*due, *late, *([str(event["reason"])] if event.get("reason") else [])])


_ABOUT_DUE: Final = ("accepted", "rescheduled")


_COLUMNS: Final = (
    Column("AT", lambda event: written(event["at"])),
    Column("EVENT", lambda event: event["event"]),
    Column("ID", lambda event: event["id"]),
    Column("TO", lambda event: event.get("to") or ""),
    Column("", _rest),
)
