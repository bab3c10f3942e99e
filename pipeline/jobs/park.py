"""Park messages due beyond the horizon: write the cold topic to Parquet files, sorted by due time."""

import argparse
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.cold.epochs import Epochs, bounds, within
from pipeline.cold.records import RECORDS, parsed
from pipeline.cold.state import MESSAGES, ColdState, plain
from pipeline.context import JobContext
from pipeline.errors import LakeIncomplete
from pipeline.files import LocalFiles
from pipeline.jobs.repetition import add_every, repeat
from pipeline.kafka import new_records
from pipeline.lake import Commit, Lake, last_commit
from pipeline.persisted import persisted
from pipeline.progress import progress

if TYPE_CHECKING:
    from pipeline.preflight import Look

KIND = "cold tier"
#: Records in a file of a run (some 20 MB of small messages), and in a larger file of a compaction.
_ROWS, _MERGED_ROWS = 250_000, 1_000_000
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
    repeat(options.every, lambda: _once(context, options))


def idle(look: "Look", source: str, options: argparse.Namespace) -> bool:
    """Return whether the topic has no new records, and no compaction is needed.

    Raises LakeMismatch, KafkaUnreachable.
    """
    files, topic = LocalFiles.at(options.cold), f"{options.app_id}-cold"
    if files is None:
        return False
    head = last_commit(files, KIND, source)
    if not head.number:
        return False  # the first run writes a commit even for an empty topic
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
    return bool(options.compact) or len(head.tables.get("voids", ())) > options.compact_after  # each run adds one


def _tell(parked: int, topic: str, root: str) -> None:
    print(f"{parked:,} records of {topic} parked in {root}")


def park(context: JobContext, lake: Lake, *, accept_gap: bool = False) -> int:
    """Add the new records of the cold topic in one commit; return their number.

    Each file is sorted by due time, and can cover any range of due times; compaction writes files whose ranges do not
    overlap. Raises DataLost, LakeBusy, LakeIncomplete, TopicMissing, KafkaUnreachable.
    """
    topic, spark = context.topic("cold"), context.spark
    done = lake.head.positions.get(topic, {})
    records, ends = new_records(context.kafka, spark, topic, done, accept_gap=accept_gap, whole=True)
    new = sum(max(0, end - done.get(number, 0)) for number, end in ends.items())
    if not new:
        if not lake.head.number:
            lake.commit({}, {topic: ends})  # from now on `promote` finds a cold tier
        return 0
    with progress(spark, "park"):
        new_rows = parsed(records.coalesce(max(1, new // _ROWS))).withColumn("message", F.col("op") == "park")
        seen = Observation("parked")
        new_rows = new_rows.observe(seen, F.count(F.lit(1)).alias("rows"))
        directories = lake.write("messages", new_rows.sortWithinPartitions("message", "due_ms"), by="message")
        all_rows = lake.written(directories, RECORDS)
        count = _assure_listed(lake, all_rows, int(seen.get["rows"]))
        limits, epochs = bounds(all_rows, known_epochs(lake))
        rows = within(all_rows, limits)
        added, moved = plain(rows), ColdState.of(lake).moved(rows)
        messages = [name for name in directories if name.endswith("message=true")]
        if limits:  # some of the records do not count
            messages = lake.write("messages", added.messages.sortWithinPartitions("due_ms"))
        if moved is not None:
            messages += lake.write("messages", moved.messages)
            added = added.plus(moved)
        lake.commit({"messages": messages, "voids": added.voids.coalesce(1)}, {topic: ends}, {"epochs": epochs})
        return count


def _assure_listed(lake: Lake, rows: DataFrame, count: int) -> int:
    """Return the number of rows, which must be `count`, the number of written rows: some file systems list files late.

    Raises LakeIncomplete if rows are missing.
    """
    listed: int = rows.count()
    if listed != count:
        raise LakeIncomplete(
            f"of {count:,} rows that were written below {lake.files.root}, {listed:,} are listed by its file system. "
            f"This run has no effect. Run it again; if the error repeats, use a file system with consistent listings."
        )
    return listed


def known_epochs(lake: Lake) -> Epochs:
    """Return the highest epochs of the parked records' writers."""
    return {int(number): epoch for number, epoch in lake.head.notes.get("epochs", {}).items()}


def compact(lake: Lake) -> None:
    """Merge the files, sorted by due time and without void messages, and delete files that no recent commit lists."""
    with progress(lake.spark, "compact"):
        with persisted(ColdState.of(lake).live()) as live:
            files = max(1, live.count() // _MERGED_ROWS)
            by_due = live.repartitionByRange(files, "due_ms").sortWithinPartitions("due_ms")
            lake.commit({"messages": by_due.select(MESSAGES.names)}, replaced={"messages", "voids"})
        lake.clean()
