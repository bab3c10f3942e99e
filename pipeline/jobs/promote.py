"""Send parked messages back to the workers shortly before they are due."""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame

from pipeline.cold.epochs import bounds, within
from pipeline.cold.idle import is_due, may_bring, opened
from pipeline.cold.promotion import Promotion, requests
from pipeline.cold.records import parsed
from pipeline.cold.state import ColdState
from pipeline.context import JobContext
from pipeline.jobs.park import KIND, known_epochs
from pipeline.jobs.reconcile import duration
from pipeline.jobs.repetition import add_every, repeat
from pipeline.kafka import new_records
from pipeline.lake import Lake, require_tables
from pipeline.persisted import persisted
from pipeline.progress import progress

if TYPE_CHECKING:
    from pipeline.preflight import Look

#: Maximum number of messages whose ids (some 100 MB) the driver and each executor hold.
_FEW = 1_000_000
TOPICS = ("cold", "requests")
AGAIN = "Some messages may already be sent; workers recognise them. Run the same command again."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `promote`."""
    parser.add_argument("cold", help="directory of the parked messages, as for `park`")
    parser.add_argument(
        "--lead",
        default="PT1H",
        help="how long before its due time a message is sent; shorter than the horizon (default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="count the messages without sending them")
    add_every(parser)


def run(context: JobContext, options: argparse.Namespace) -> None:
    """Promote once, or repeatedly with `--every`."""
    repeat(options.every, lambda: _once(context, options), context.summary)


def idle(look: "Look", source: str, options: argparse.Namespace) -> bool:
    """Return whether neither the tables nor the topic's new records have a message to promote.

    Raises LakeMismatch, OptionInvalid, KafkaUnreachable.
    """
    tier, lead_ms, topic = opened(options.cold, KIND, source), duration(options.lead), f"{options.app_id}-cold"
    if tier is None:
        return False
    files, head = tier
    before = Promotion.of(head.notes.get("promoted"))
    now_ms = time.time_ns() // 1_000_000
    positions, (begins, ends) = head.positions.get(topic, {}), look.spans(topic)
    if any(not begins[number] <= positions.get(number, begins[number]) <= end for number, end in ends.items()):
        return False  # the topic was created again, or has lost records that were never parked: promote() reports it
    promotion = before.next(now_ms, now_ms + lead_ms, ends)
    if may_bring(look, topic, positions, ends, promotion.until_ms) or is_due(files, promotion, before):
        return False
    options.until_ms = promotion.until_ms
    _report(0, options)
    return True


def _once(context: JobContext, options: argparse.Namespace) -> None:
    lead_ms = duration(options.lead)
    count = promote(context, options.cold, lead_ms, dry_run=options.dry_run)
    context.summary.count(promoted=count)
    context.summary.nothing = not count
    _report(count, options)


def _report(count: int, options: argparse.Namespace) -> None:
    print(f"{count:,} messages {'would be ' if options.dry_run else ''}promoted from {options.cold}")


def promote(context: JobContext, root: str, lead_ms: int, *, dry_run: bool = False) -> int:
    """Send back messages that are due within `lead_ms` and were not sent before; return their number.

    After a killed run, the next run sends some messages again, and workers recognise them. A worker touches each
    message that it takes, which ends its parking. A message that no worker touches within five minutes is sent again.

    Raises DataLost, LakeMismatch, OptionInvalid, LakeBusy, TopicMissing, KafkaUnreachable.
    """
    spark, topic = context.spark, context.topic("cold")
    lake = context.lake(root, KIND)
    require_tables(lake.head, root, "park")
    before = Promotion.of(lake.head.notes.get("promoted"))
    now_ms = time.time_ns() // 1_000_000  # read before the topic's ends, so that all earlier touches are before them
    positions = lake.head.positions.get(topic, {})
    tail, ends = new_records(context.kafka, spark, topic, positions)
    promotion = before.next(now_ms, now_ms + lead_ms, ends)
    context.summary.read_to({topic: ends})
    context.summary.until_ms = promotion.until_ms
    due = ColdState.of(lake, promotion.until_ms)
    state_with_tail = _with_tail(lake, due, tail) if ends != positions else nullcontext(due)
    with (
        progress(spark, "promote"),
        state_with_tail as state,
        _selected(state, promotion.due() & promotion.fresh(before)) as messages,
    ):
        if messages is None:
            return 0
        count: int = messages.count()
        if count and not dry_run:
            context.kafka.write(requests(messages, now_ms), context.topic("requests"))
    if not dry_run:
        lake.commit(notes={"promoted": promotion.note()})
    return count


@contextmanager
def _with_tail(lake: Lake, due: ColdState, tail: DataFrame) -> Iterator[ColdState]:
    """Return the parked messages that are `due`, including the topic's records that are not in the table yet."""
    with persisted(parsed(tail)) as rows:
        limits, _ = bounds(rows, known_epochs(lake))
        yield due.plus(ColdState.of(lake).after(within(rows, limits)))


@contextmanager
def _selected(state: ColdState, condition: Column) -> Iterator[DataFrame | None]:
    """Return the parked messages in `state` that meet a condition; None if no version does, void or not.

    They are usually a small part of all messages, so only their own voids are used.
    """
    with persisted(state.messages.where(condition)) as messages:
        count = messages.count()
        if not count:
            yield None
            return
        some = ColdState(messages, state.voids) if count > _FEW else state.of_these(messages)
        with persisted(some.live()) as live:
            yield live
