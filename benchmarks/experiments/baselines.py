"""Other systems, measured as Punctual is."""

from functools import partial

from benchmarks.baselines.etf1 import Etf1
from benchmarks.baselines.rival import Rival
from benchmarks.baselines.sorted_set import SortedSet
from benchmarks.baselines.streams import ExactStreams, Streams, TwoThreads
from benchmarks.errors import BaselineFailed, BaselineMissing, BenchmarkError
from benchmarks.experiments import whole
from benchmarks.figures import Figures
from benchmarks.sizes import Sizes

_RIVALS: dict[str, type[Rival]] = {
    "streams": Streams,
    "streams-two-threads": TwoThreads,
    "streams-exactly-once": ExactStreams,
    "sorted-set": SortedSet,
    "etf1": Etf1,
}
NAMES = tuple(_RIVALS)
TITLES = {
    "streams": "Kafka Streams",
    "streams-two-threads": "Kafka Streams, two threads",
    "streams-exactly-once": "Kafka Streams, exactly once",
    "sorted-set": "Redis sorted set",
    "etf1": "etf1's scheduler",
}


def measure(name: str, bootstrap: str, sizes: Sizes) -> Figures:
    """Measure a system as a whole. Raises BaselineMissing, or BaselineFailed if it fails."""
    try:
        return {name: whole.measure(partial(_RIVALS[name], bootstrap), sizes)}
    except BaselineMissing:
        raise
    except BenchmarkError as error:  # the figures of other systems count all the same
        raise BaselineFailed(name, error) from error
