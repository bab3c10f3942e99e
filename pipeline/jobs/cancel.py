"""Cancel many pending messages at once, chosen from the ledger."""

import argparse
from typing import TYPE_CHECKING

from pipeline.bulk.commands import cancels
from pipeline.jobs.selection import add_selection, chosen, counted, send

if TYPE_CHECKING:
    from pipeline.context import JobContext

TOPICS = ("requests",)
AGAIN = "Some of the commands may already be sent. Run the same command again; nothing is done twice."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `cancel`."""
    add_selection(parser)


def run(context: "JobContext", options: argparse.Namespace) -> None:
    """Print an overview of the selected messages, and cancel them with `--apply`."""
    with counted(context, options, chosen(context, options)) as messages:
        send(context, options, cancels(messages))
