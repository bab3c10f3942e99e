"""Estimates an installation's resources: python deploy/size.py --pending 10000000 --rate 5000 --value-bytes 100."""

import argparse
import itertools
import math
from dataclasses import dataclass

# From docs/explanation/benchmarks.md, native extension on: a worker with ten million pending, and larger values.
_ROW_BYTES, _ROW_VALUE_BYTES = 249.7, 100
_RESTORE_PER_S = 100_136
_BASE_MIB = 207
#: Value bytes, and microseconds of CPU that one message takes in and out.
_CPU_US = ((100, 12.6), (1_000, 26.1), (10_000, 142.8), (100_000, 574.1))
#: 2.0 s of CPU for 30,000 messages at 10,000/s above ten million pending.
_BUSY_US = 66.4
_USED = 0.6


@dataclass(frozen=True, kw_only=True)
class Need:
    """What is needed: busy cores, workers, and of each worker disk, memory and the restore of an empty disk."""

    cores: float
    workers: int
    disk_gb: float
    memory_mib: int
    restore_s: float


def need(pending: int, rate: float, value_bytes: int) -> Need:
    """Return what `pending` messages of `value_bytes`, `rate` a second in and out, need."""
    larger = max(_cpu_us(value_bytes) - _CPU_US[0][1], 0)
    cores = rate * (_BUSY_US + larger) / 1e6
    workers = max(2, math.ceil(cores / _USED))
    row = max(_ROW_BYTES - _ROW_VALUE_BYTES + value_bytes, _ROW_BYTES)
    each = pending / workers
    return Need(
        cores=cores,
        workers=workers,
        disk_gb=2 * each * row / 1e9,  # twice, for compactions
        memory_mib=2 * _BASE_MIB,
        restore_s=each / _RESTORE_PER_S * row / _ROW_BYTES,
    )


def _cpu_us(size: int) -> float:
    for (low, least), (high, most) in itertools.pairwise(_CPU_US):
        if size <= high:
            return least + (most - least) * (size - low) / (high - low)
    return _CPU_US[-1][1] * size / _CPU_US[-1][0]


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, required=True, help="messages pending")
    parser.add_argument("--rate", type=float, required=True, help="messages a second, in and out")
    parser.add_argument("--value-bytes", type=int, default=100, help="bytes of a value")
    options = parser.parse_args()
    if min(options.pending, options.rate, options.value_bytes) < 0:
        parser.error("a number is negative: give 0 or more.")
    resources = need(options.pending, options.rate, options.value_bytes)
    print(f"busy cores of all workers  {resources.cores:.1f}")
    print(f"workers, one core each     {resources.workers}")
    print(f"memory of each             {resources.memory_mib} MiB")
    print(f"disk of each               {resources.disk_gb:.1f} GB")
    print(f"an empty disk restored in  {resources.restore_s:.0f} s")


if __name__ == "__main__":
    main()
