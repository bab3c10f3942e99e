"""A progress bar of Spark's tasks on stderr."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_EVERY_S = 0.2
_WIDTH = 30
_CLEAR = "\r\033[K"


@contextmanager
def progress(spark: SparkSession, what: str) -> Iterator[None]:
    """Show a progress bar labelled `what` for a block, and afterwards its duration; without a terminal, only that."""
    began, over = time.monotonic(), threading.Event()
    on_terminal = sys.stderr.isatty()
    drawer = threading.Thread(target=_draw, args=(spark, what, over), daemon=True)
    if on_terminal:
        drawer.start()
    try:
        yield
    finally:
        over.set()
        if on_terminal:
            drawer.join()
            sys.stderr.write(_CLEAR)
        sys.stderr.write(f"{what}: {time.monotonic() - began:.1f} s\n")


def _draw(spark: SparkSession, what: str, over: threading.Event) -> None:
    """Draw the completed tasks of Spark's active stages, five times a second, until `over` is set."""
    tracker = spark.sparkContext.statusTracker()
    while not over.wait(_EVERY_S):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        completed = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        filled = _WIDTH * completed // tasks if tasks else 0
        sys.stderr.write(f"{_CLEAR}{what} [{'#' * filled}{'.' * (_WIDTH - filled)}] {completed}/{tasks}")
        sys.stderr.flush()
