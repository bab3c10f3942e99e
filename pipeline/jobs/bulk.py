"""Schedule many messages at once: each row of Parquet, CSV, JSON lines or a table becomes a delay request."""

import argparse
import os
import time
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Observation

from pipeline.bulk import inputs, rejects
from pipeline.bulk.expressions import SETTINGS
from pipeline.bulk.mapping import RowLimits
from pipeline.bulk.options import add_mapping, duration_ms, mapping_of, pairs, positive
from pipeline.bulk.overview import Overview, span_of
from pipeline.bulk.repeats import essence, may_repeat, without_repeats
from pipeline.bulk.requests import requests
from pipeline.bulk.sending import input_topics, send, using
from pipeline.errors import LEFT, TooMany, TopicMissing
from pipeline.hadoop import Output
from pipeline.persisted import persisted
from pipeline.progress import progress

if TYPE_CHECKING:
    from pipeline.context import JobContext

TOPICS = ("requests",)
AGAIN = "Some of the requests may already be sent. Run the same command again; each message is delivered once."

#: Maximum number of missing destinations in a message.
_NAMED = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `bulk`."""
    parser.add_argument(
        "input", metavar="INPUT", help="file, directory or pattern on any file system, or name of a table"
    )
    parser.add_argument(
        "--format", choices=inputs.FORMATS, default="parquet", help="format of INPUT (default: %(default)s)"
    )
    parser.add_argument(
        "--reader-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of Spark's reader, such as sep=; for CSV",
    )
    add_mapping(parser)
    parser.add_argument("--rejects", metavar="DIR", help="write rejected rows to DIR, with the reason")
    parser.add_argument(
        "--on-rejected",
        choices=("fail", "pass"),
        help=f"whether rejected rows cause exit code {LEFT} (default: fail; with --rejects: pass)",
    )
    past = parser.add_mutually_exclusive_group()
    past.add_argument("--fail-on-past", action="store_true", help="send no messages if any is already due")
    past.add_argument("--max-past", type=int, metavar="N", help="send no messages if more than N are already due")
    parser.add_argument("--dry-run", action="store_true", help="count and show the messages without sending them")
    parser.add_argument("--max-per-second", type=positive, metavar="N", help="maximum rate, evenly spread")
    parser.add_argument(
        "--max-delay",
        type=duration_ms,
        default="P1827D",
        help="maximum delay; later messages are rejected (default: %(default)s, the maximum of the workers)",
    )
    parser.add_argument(
        "--inputs",
        default=os.environ.get("DELAY_INPUTS", ""),
        metavar="TOPIC,…",
        help="the installation's other input topics, which decide the home partition of some IDs (DELAY_INPUTS)",
    )


def run(context: "JobContext", options: argparse.Namespace) -> int:
    """Print an overview of the requests and send the valid ones; return the exit code."""
    kafka, spark, topic = context.kafka, context.spark, context.topic("requests")
    mapping, reading = mapping_of(options), pairs("--reader-option", options.reader_option)
    limits = RowLimits(time.time_ns() // 1_000_000, options.max_delay, kafka.largest_record(spark, topic))
    context.summary.sending = False
    if options.rejects:
        Output(spark, options.rejects)
    with using(spark, SETTINGS):
        rows = inputs.read(spark, options.input, options.format, dict(reading))
        with progress(spark, "count"):
            counted, overview = _counted(requests(rows, mapping, limits), limits.now_ms)
        print(*overview.lines(), sep="\n", flush=True)
        _summarise(context, overview)
        _assure_future(overview, 0 if options.fail_on_past else options.max_past)
        _assure_topics(context, overview)
        if overview.rejected and options.rejects:
            with progress(spark, "rejects"):
                print(f"\nrejected rows are in {rejects.keep(counted, options.rejects)}")
        if options.dry_run:
            print("\nNothing was sent: this was a dry run.")
        elif overview.messages:
            context.summary.sending = True
            send(
                context, counted.where("reason is null"), input_topics(context, options.inputs), options.max_per_second
            )
            context.summary.count(sent=overview.messages)
            print(f"\n{overview.messages:,} requests are on {topic}")
    fails = options.on_rejected == "fail" or (options.on_rejected is None and not options.rejects)
    return LEFT if overview.rejected and fails else 0


def _summarise(context: "JobContext", overview: Overview) -> None:
    context.summary.count(messages=overview.messages, past=overview.overdue, rejected=overview.rejected, sent=0)
    context.summary.count(**{f"rejected-{reason}": count for reason, count in overview.reasons.items()})
    context.summary.nothing = not overview.messages and not overview.rejected


def _assure_future(overview: Overview, most: int | None) -> None:
    """Raise TooMany if more than `most` messages are already due."""
    if most is not None and overview.overdue > most:
        raise TooMany(f"{overview.overdue:,} of {overview.messages:,} messages are already due. Nothing was sent.")


def _assure_topics(context: "JobContext", overview: Overview) -> None:
    """Raise TopicMissing if a destination does not exist: workers would refuse its messages."""
    missing = context.kafka.missing(context.spark, overview.destinations)
    if missing:
        named = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "")
        raise TopicMissing(
            f"destinations are missing on {context.kafka.bootstrap}: {named}. Nothing was sent. Create them, or "
            f"correct --to or --to-column."
        )


def _counted(rows: DataFrame, now_ms: int) -> tuple[DataFrame, Overview]:
    """Return the requests, with duplicate ids rejected, and their overview; read the input once if no id repeats."""
    span = Observation()
    with persisted(essence(rows)) as essences:
        if not may_repeat(essences.observe(span, *span_of(now_ms))):
            return rows, Overview.of(essences, now_ms, span.get)
    rows = without_repeats(rows)
    return rows, Overview.of(rows, now_ms)
