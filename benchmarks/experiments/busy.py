"""A busy machine: all measurements next to processes that never sleep."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.experiments import beside, whole
from benchmarks.figures import Figures
from benchmarks.sizes import Sizes
from benchmarks.target import Target

_SPINNING = 2
#: It ends with this process in any case: its standard input is closed then.
_SPIN = """
import sys, threading
def spin():
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
sys.stdin.read()
"""


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure Punctual and Kafka Streams as a whole, next to two processes that take all the CPU that they get."""
    return beside.measure("busy-machine", bootstrap, partial(_beside_others, sizes=sizes))


def _beside_others(install: Callable[[str], Target], sizes: Sizes) -> dict[str, float]:
    with _spinning():
        return whole.measure(install, sizes)


@contextmanager
def _spinning() -> Iterator[None]:
    """Have processes spin while the block runs."""
    command = [sys.executable, "-c", _SPIN]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(_SPINNING)]  # noqa: S603 - our own
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
