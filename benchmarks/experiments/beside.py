"""Measures Punctual and Kafka Streams in one run, for figures whose ratio alone is meaningful."""

from collections.abc import Callable
from functools import partial

from benchmarks.baselines.streams import Streams
from benchmarks.errors import BaselineMissing
from benchmarks.figures import Figures
from benchmarks.installation import Installation
from benchmarks.target import Target


def measure(group: str, bootstrap: str, one: Callable[[Callable[[str], Target]], dict[str, float]]) -> Figures:
    """Measure both as `one` does, given what installs them: a group each, that of Punctual has no second word.

    Kafka Streams is left out where it cannot run.
    """
    figures = {group: one(partial(Installation, bootstrap))}
    try:
        figures[f"{group} streams"] = one(partial(Streams, bootstrap))
    except BaselineMissing:
        return figures
    return figures
