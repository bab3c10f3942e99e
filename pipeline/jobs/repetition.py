"""Jobs that are repeated: `--every`."""

import argparse
import time
from collections.abc import Callable

from pipeline.summary import Summary


def add_every(parser: argparse.ArgumentParser) -> None:
    """Add the option `--every`."""
    parser.add_argument("--every", type=float, metavar="S", help="repeat, with S seconds from start to start")


def repeat(every_s: float | None, job: Callable[[], object], summary: Summary) -> None:
    """Run a job once, or every `every_s` seconds until the process ends; write the metrics after each of these runs."""
    while True:
        began = time.monotonic()
        job()
        if every_s is None:
            return
        summary.write_metrics()
        time.sleep(max(0.0, began + every_s - time.monotonic()))
