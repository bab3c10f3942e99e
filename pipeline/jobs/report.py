"""Draw a report of the ledger: one HTML file, and a PNG."""

import argparse
import time
from pathlib import Path

from pipeline.context import Context
from pipeline.jobs.reconcile import add_judged, duration, opened
from pipeline.progress import progress
from pipeline.reconcile.lost import Judge


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's own options."""
    add_judged(parser)
    parser.add_argument("--out", default="report.html", help="the page (%(default)s)")
    parser.add_argument("--png", metavar="FILE", help="also a picture of it")


def run(context: Context, options: argparse.Namespace) -> None:
    """Gather and draw."""
    from pipeline.report.findings import Findings  # noqa: PLC0415 - matplotlib takes half a second to import
    from pipeline.report.page import page, picture  # noqa: PLC0415

    judge = Judge(opened(context, options), duration(options.grace))
    with progress(context.spark, "report"):
        findings = Findings.of(judge, time.time_ns() // 1_000_000)
        Path(options.out).write_text(page(findings))
        if options.png:
            Path(options.png).write_bytes(picture(findings))
    print(", ".join(filter(None, (options.out, options.png))))
