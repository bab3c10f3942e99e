"""Delete files of a ledger or cold tier that only earlier versions need."""

import argparse

from pipeline.context import JobContext
from pipeline.errors import LakeMismatch
from pipeline.jobs.reconcile import duration
from pipeline.lake import Lake, require_tables
from pipeline.progress import progress

TOPICS = ()
AGAIN = "Files that are still needed are never deleted. Run the same command again."
_HOUR_MS = 3_600_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `vacuum`."""
    parser.add_argument("directory", nargs="+", metavar="DIR", help="directory of a ledger or a cold tier")
    parser.add_argument(
        "--older-than",
        metavar="DURATION",
        default="P7D",
        help="keep the files that versions of this last period need (default: %(default)s). A shorter period than the "
        "longest run may delete the files of a run that is in progress",
    )


def run(context: JobContext, options: argparse.Namespace) -> None:
    """Delete the files."""
    hours = duration(options.older_than) / _HOUR_MS
    for root in options.directory:
        lake = table(context, root)
        with progress(context.spark, "vacuum"):
            lake.vacuum(hours)
        print(f"{root}: only files of versions of the last {options.older_than} are left")


def table(context: JobContext, root: str) -> Lake:
    """Return the ledger or cold tier in a directory. Raises LakeMismatch, OptionInvalid."""
    try:
        lake = context.lake(root, "ledger")
    except LakeMismatch:
        lake = context.lake(root, "cold tier")
    require_tables(lake.head, root, "ledger")
    return lake
