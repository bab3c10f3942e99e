"""Park messages due beyond the horizon: write the cold topic to a Delta Lake table."""

import argparse
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.cold.epochs import Epochs, bounds, within
from pipeline.cold.idle import opened
from pipeline.cold.records import parsed
from pipeline.cold.state import ColdState
from pipeline.commit import Commit
from pipeline.context import JobContext
from pipeline.jobs.repetition import add_every, repeat
from pipeline.kafka import in_tasks, new_records
from pipeline.lake import Lake
from pipeline.persisted import persisted
from pipeline.progress import progress

if TYPE_CHECKING:
    from pipeline.preflight import Look

KIND = "cold tier"
#: Records in a file of a compaction.
_MERGED_ROWS = 1_000_000
TOPICS = ("cold",)
AGAIN = "Uncommitted work does not count, and its records are still on the topic. Run the same command again."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `park`."""
    parser.add_argument("cold", help="directory of the parked messages: local, HDFS or S3A")
    parser.add_argument(
        "--compact", action="store_true", help="also merge files and remove void messages, for example daily"
    )
    parser.add_argument(
        "--compact-after", type=int, default=100, metavar="N", help="compact every N runs (default: %(default)s)"
    )
    parser.add_argument("--accept-gap", action="store_true", help="continue although Kafka has deleted unread records")
    add_every(parser)


def run(context: JobContext, options: argparse.Namespace) -> None:
    """Park once, or repeatedly with `--every`."""
    repeat(options.every, lambda: _once(context, options), context.summary)


def idle(look: "Look", source: str, options: argparse.Namespace) -> bool:
    """Return whether the topic has no new records, and no compaction is needed.

    Raises LakeMismatch, KafkaUnreachable.
    """
    tier = opened(options.cold, KIND, source)
    if tier is None:
        return False  # the first run writes a commit even for an empty topic
    (_, head), topic = tier, f"{options.app_id}-cold"
    done, ends = head.positions.get(topic, {}), look.ends(topic)
    if any(end != done.get(number, 0) for number, end in ends.items()) or _wants_compaction(head, options):
        return False
    _tell(0, topic, options.cold)
    return True


def _once(context: JobContext, options: argparse.Namespace) -> None:
    lake = context.lake(options.cold, KIND)
    parked = park(context, lake, accept_gap=options.accept_gap)
    if _wants_compaction(lake.head, options):
        compact(lake)
    context.summary.count(parked=parked)
    context.summary.read_to(lake.head.positions)
    context.summary.nothing = not parked and not options.compact
    _tell(parked, context.topic("cold"), options.cold)


def _wants_compaction(head: Commit, options: argparse.Namespace) -> bool:
    return bool(options.compact) or head.notes.get("runs", 0) > options.compact_after


def _tell(parked: int, topic: str, root: str) -> None:
    print(f"{parked:,} records of {topic} parked in {root}")


def park(context: JobContext, lake: Lake, *, accept_gap: bool = False) -> int:
    """Add the new records of the cold topic in one commit; return their number.

    Each file is sorted by due time, and can cover any range of due times; compaction writes files whose ranges do not
    overlap. Raises DataLost, LakeBusy, TopicMissing, KafkaUnreachable.
    """
    topic, spark = context.topic("cold"), context.spark
    done = lake.head.positions.get(topic, {})
    records, ends = new_records(context.kafka, spark, topic, done, accept_gap=accept_gap, whole=True)
    new = sum(max(0, end - done.get(number, 0)) for number, end in ends.items())
    if not new:
        if not lake.head.number:
            lake.commit(positions={topic: ends})  # from now on `promote` finds a cold tier
        return 0
    with progress(spark, "park"), persisted(parsed(in_tasks(records, new))) as new_rows:
        limits, epochs = bounds(new_rows, known_epochs(lake))
        added = ColdState.of(lake).after(within(new_rows, limits))
        rows = {"messages": added.messages.sortWithinPartitions("due_ms"), "voids": added.voids.coalesce(1)}
        lake.commit(rows, {topic: ends}, {"epochs": epochs, "runs": lake.head.notes.get("runs", 0) + 1})
        return int(new_rows.count())


def known_epochs(lake: Lake) -> Epochs:
    """Return the highest epochs of the parked records' writers."""
    return {int(number): epoch for number, epoch in lake.head.notes.get("epochs", {}).items()}


def compact(lake: Lake) -> None:
    """Sort the messages into the days on which they are due, remove void ones, and delete files of no recent commit."""
    with progress(lake.spark, "compact"):
        with persisted(ColdState.of(lake).live()) as live:
            by_day = live.withColumn("day", F.to_date(F.timestamp_millis("due_ms")))
            by_due = by_day.repartitionByRange(max(1, live.count() // _MERGED_ROWS), "due_ms")
            messages = by_due.sortWithinPartitions("day", "due_ms")
            lake.commit({"messages": messages}, notes={"runs": 0}, replaced={"messages", "voids"})
        lake.vacuum()
