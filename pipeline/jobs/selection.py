"""Shared by commands on many messages: select messages, print an overview, and send the commands with `--apply`."""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.bulk.commands import COLUMNS, selected
from pipeline.bulk.overview import Overview
from pipeline.errors import TooMany
from pipeline.lake import require_tables
from pipeline.ledger import KIND, pending
from pipeline.persisted import persisted
from pipeline.progress import progress

if TYPE_CHECKING:
    from pipeline.context import JobContext


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that select messages."""
    parser.add_argument("--ledger", required=True, metavar="DIR", help="directory of the ledger, as for `ledger`")
    parser.add_argument(
        "--where", required=True, metavar="EXPR", help=f"condition on pending messages: SQL over {', '.join(COLUMNS)}"
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="maximum number of messages; if more match, none is changed"
    )
    parser.add_argument("--apply", action="store_true", help="send the commands; without it, only count them")


def chosen(context: "JobContext", options: argparse.Namespace) -> DataFrame:
    """Return the ledger's pending messages that meet `--where`. Raises OptionInvalid, SchemaMismatch, LakeMismatch."""
    lake = context.lake(options.ledger, KIND)
    require_tables(lake.head, options.ledger, "ledger")
    age_s = time.time() - lake.head.at_ms / 1000
    print(f"pending by the ledger of {age_s:,.0f} s ago:", end=" ")
    return selected(pending(lake), options.where)


@contextmanager
def counted(context: "JobContext", options: argparse.Namespace, messages: DataFrame) -> Iterator[DataFrame]:
    """Print an overview of messages, and return them for a block. Raises TooMany."""
    with persisted(messages):
        with progress(context.spark, "count"):
            overview = overview_of(messages, "due_ms")
        print(*overview.lines(), sep="\n", flush=True)
        context.summary.count(chosen=overview.messages)
        context.summary.nothing = not overview.messages
        if options.limit is not None and overview.messages > options.limit:
            raise TooMany(f"{overview.messages:,} messages match, and --limit is {options.limit:,}. Nothing was sent.")
        yield messages


def overview_of(messages: DataFrame, due: str) -> Overview:
    """Return the overview of messages by the column `due`, their due time."""
    rows = messages.select("to", F.col(due).alias("due_ms"), F.lit(None).cast("string").alias("reason"))
    return Overview.of(rows, time.time_ns() // 1_000_000)


def send(context: "JobContext", options: argparse.Namespace, commands: DataFrame) -> None:
    """Send commands with `--apply`, and print what was done."""
    if not options.apply:
        print("\nNothing was sent: this was a dry run. Give --apply to send the commands.")
        return
    with progress(context.spark, "send"):
        context.kafka.write(commands, context.topic("requests"))
    context.summary.count(sent=context.summary.counts["chosen"])
    print(f"\nThe commands are on {context.topic('requests')}.")
