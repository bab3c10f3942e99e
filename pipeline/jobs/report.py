"""Write a report of the ledger: one HTML file, and a PNG."""

import argparse
import time

from pipeline.context import JobContext
from pipeline.hadoop import Output
from pipeline.jobs import ledger
from pipeline.jobs.reconcile import add_as_of, add_judged, duration, opened
from pipeline.progress import progress
from pipeline.reconcile.lost import Judge

TOPICS = ledger.TOPICS
AGAIN = "Only the ledger was changed, completely or not at all. Run the same command again."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `report`."""
    add_judged(parser)
    add_as_of(parser)
    parser.add_argument(
        "--out", default="report.html", help="file of the HTML page, on any file system (default: %(default)s)"
    )
    parser.add_argument("--png", metavar="FILE", help="also write a picture")


def run(context: JobContext, options: argparse.Namespace) -> None:
    """Write the report of the ledger, and the picture with `--png`."""
    from pipeline.report.findings import Findings  # noqa: PLC0415 - matplotlib takes half a second to import
    from pipeline.report.page import page, picture  # noqa: PLC0415

    out, png = Output(context.spark, options.out), Output(context.spark, options.png) if options.png else None
    judge = Judge(opened(context, options), duration(options.grace))
    with progress(context.spark, "report"):
        findings = Findings.of(judge, time.time_ns() // 1_000_000)
        out.write(page(findings).encode())
        if png:
            png.write(picture(findings))
    context.summary.nothing = False  # a run without new records has a report too
    print(", ".join(filter(None, (options.out, options.png))))
