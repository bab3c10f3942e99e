"""Reschedule many pending messages at once, chosen from the ledger."""

import argparse
from typing import TYPE_CHECKING

from pipeline.bulk.commands import moved, reschedules
from pipeline.bulk.expressions import SETTINGS
from pipeline.bulk.options import duration_ms
from pipeline.bulk.sending import using
from pipeline.errors import OptionInvalid
from pipeline.jobs.selection import add_selection, chosen, counted, overview_of, send

if TYPE_CHECKING:
    from pipeline.context import JobContext

TOPICS = ("requests",)
AGAIN = (
    "Some of the commands may already be sent. Run the same command again before the next `ledger`; no message is "
    "moved twice."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `reschedule`."""
    when = parser.add_mutually_exclusive_group(required=True)
    when.add_argument(
        "--shift", type=_shift_ms, metavar="DURATION", help="move the due time later, or earlier: --shift=-PT2H"
    )
    when.add_argument("--at", metavar="EXPR", help="new due time: SQL, as in --where")
    add_selection(parser)


def run(context: "JobContext", options: argparse.Namespace) -> None:
    """Print an overview of the selected messages, and move them with `--apply`.

    Raises OptionInvalid if `--at` has no time for some of them.
    """
    with using(context.spark, SETTINGS):
        rows = moved(chosen(context, options), shift_ms=options.shift, at=options.at)
        with counted(context, options, rows) as messages:
            without = messages.where("new_ms is null").count()
            if without:
                raise OptionInvalid(f"--at gives no time for {without:,} of the messages. Nothing was sent.")
            print("\ndue then:", *overview_of(messages, "new_ms").when(), sep="\n")
            send(context, options, reschedules(messages))


def _shift_ms(text: str) -> int:
    earlier = text.startswith("-")
    return -duration_ms(text[1:]) if earlier else duration_ms(text)
