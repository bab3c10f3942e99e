"""Update the ledger: write the outcome of every request from the topics to a Delta Lake table."""

import argparse

from pipeline.context import JobContext
from pipeline.dialects import within
from pipeline.errors import OptionInvalid
from pipeline.jobs.repetition import add_every, repeat
from pipeline.lake import Lake
from pipeline.ledger import KIND
from pipeline.ledger.intake import take_in
from pipeline.progress import progress
from punctual.contract.dialects.dialects import NATIVE, dialect_of
from punctual.contract.namespaces import Namespaces, parse_namespaces

TOPICS = ("requests", "forwards", "events", "progress")
AGAIN = "Uncommitted work does not count. Run the same command again."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ledger`."""
    add_ledger(parser)
    parser.add_argument("--compact", action="store_true", help="also merge small files, for example daily")
    parser.add_argument(
        "--compact-after", type=int, default=100, metavar="N", help="compact every N runs (default: %(default)s)"
    )
    add_every(parser)


def add_ledger(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that updates the ledger."""
    parser.add_argument("ledger", help="directory of the ledger: local, HDFS or S3A")
    parser.add_argument("--inputs", default="", metavar="A,B=DIALECT", help="the workers' DELAY_INPUTS")
    parser.add_argument("--namespaces", default="", metavar="A=TEAM", help="the workers' DELAY_NAMESPACES")
    parser.add_argument("--no-values", action="store_true", help="do not store keys, values and headers of requests")
    parser.add_argument("--accept-gap", action="store_true", help="continue although Kafka has deleted unread records")


def run(context: JobContext, options: argparse.Namespace) -> None:
    """Update the ledger once, or repeatedly with `--every`."""
    repeat(options.every, lambda: _once(context, options), context.summary)


def _once(context: JobContext, options: argparse.Namespace) -> None:
    lake = keep(context, options)
    if options.compact or lake.head.notes["runs"] > options.compact_after:
        with progress(context.spark, "compact"):
            compact(lake)


def compact(lake: Lake) -> None:
    """Merge the small files of each kind and day, and delete files that no commit of the last week has listed."""
    lake.merge_files()
    lake.commit(notes={"runs": 0})
    lake.vacuum()


def other_inputs(options: argparse.Namespace) -> dict[str, str]:
    """Return the dialects of the input topics in `--inputs`: native for a topic without one.

    The dialect of an input that `--namespaces` assigns to a team includes the namespaces. Raises OptionInvalid.
    """
    namespaces = namespaces_of(options)
    pairs = (each.strip().partition("=") for each in options.inputs.split(","))
    inputs = {topic: text or NATIVE.name for topic, _, text in pairs if topic}
    for topic, text in inputs.items():
        try:
            dialect_of(text)
        except ValueError as error:
            raise OptionInvalid(f"--inputs {topic}={text}: {error}.") from error
    of_teams = {topic for topic in inputs if namespaces.of_topic(topic)}
    return {topic: within(text, options.namespaces if topic in of_teams else "") for topic, text in inputs.items()}


def namespaces_of(options: argparse.Namespace) -> Namespaces:
    """Return the namespaces in `--namespaces`. Raises OptionInvalid."""
    try:
        return parse_namespaces(options.namespaces)
    except ValueError as error:
        raise OptionInvalid(f"--namespaces: {error}.") from error


def keep(context: JobContext, options: argparse.Namespace) -> Lake:
    """Add the new records to the ledger that the options name, and return the ledger."""
    lake = context.lake(options.ledger, KIND)
    inputs = other_inputs(options)
    with progress(context.spark, "ledger"):
        counts = take_in(context, lake, inputs, values=not options.no_values, accept_gap=options.accept_gap)
    context.summary.count(**counts)
    context.summary.read_to(lake.head.positions)
    context.summary.nothing = not any(counts.values())
    listed = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    print(f"{options.ledger}: {listed or 'nothing'} new")
    return lake
