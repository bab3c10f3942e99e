"""The process that measures one tree: each line of input is a round, each line of output the cost of the round.

`python -P -m benchmarks.hot_path.child TREE DIRECTORY MESSAGES`, with TREE first on PYTHONPATH: `app` and
`tables` are that tree's, all else is the same for every tree. It ends with its input.
"""

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

import msgspec
import uvloop
from aiokafka.record.default_records import DefaultRecordBatchBuilder

import app
from benchmarks.hot_path import dialects
from benchmarks.hot_path.assembly import Assembly, Fetch
from benchmarks.hot_path.stages import Stopwatch
from benchmarks.plan import Plan

#: As many as the worker takes from a fetch at a time.
_CHUNK = 2_000
_HOUR_MS = 3_600_000
_USUAL_THRESHOLDS = 700, 10, 10


def requests(count: int, base_ms: int) -> list[Fetch]:
    """Return requests as brokers send them: half have ids, the others get ids from their offsets.

    In another dialect they have the dialect's ids.
    """
    plan = Plan(name="order", to="orders", count=count, base_ms=base_ms + _HOUR_MS, step_us=50)
    other = dialects.request_maker()
    fetches = []
    for number, due_ms in enumerate(plan.due_times()):
        topic, key, value = "delay-requests", plan.id(number).encode(), plan.value(number)
        if other is None:
            headers = [("delay-to", plan.to.encode()), ("delay-at", b"%d" % due_ms)]
            if number % 2:
                headers.append(("delay-id", key))
        else:
            topic = dialects.INPUT
            headers, key, value = other(plan.to, due_ms, key, value)
        place = number % _CHUNK
        if not place:
            batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
            fetches.append((topic, number, batch))
        batch.append(place, base_ms, key, value, headers)
    return [(topic, first, first.to_bytes(8, "big") + bytes(batch.build())[8:]) for topic, first, batch in fetches]


async def measure(assembly: Assembly, count: int, chunks: list[Fetch], watch: Stopwatch) -> dict[str, float]:
    """Put all requests in and deliver them; return the CPU of `in`, `out` and each stage, in µs per message."""
    try:
        await asyncio.sleep(0)  # the partition's task begins
        spent = await _timed("in", assembly.take(chunks), watch)
        _assure(assembly.pending() == count, "not all requests are in the table")
        spent |= await _timed("out", assembly.deliver(), watch)
        _assure(assembly.pending() == 0, "not all rows are gone")
    finally:
        await assembly.close()
    return {name: seconds * 1e6 / count for name, seconds in spent.items()}


async def _timed(way: str, work: Awaitable[None], watch: Stopwatch) -> dict[str, float]:
    gc.collect()
    watch.take()
    began = time.process_time()
    await work
    total = time.process_time() - began
    stages = watch.take()
    named = {f"{way} {stage}": seconds for stage, seconds in stages.items()}
    return {way: total, **named, f"{way} rest": total - sum(stages.values())}


async def _round(directory: str, count: int, chunks: list[Fetch], watch: Stopwatch) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=directory) as here:
        return await measure(Assembly(Path(here)), count, chunks, watch)


def _assure(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise RuntimeError(otherwise)


def main() -> None:
    """Measure a round for each line of input."""
    tree, directory, count = sys.argv[1:]
    _assure(Path(app.__file__).is_relative_to(tree), f"app is {app.__file__}, not that of {tree}")
    chunks, watch = requests(int(count), time.time_ns() // 1_000_000), Stopwatch()
    gc.collect()
    gc.freeze()  # as the worker does once it is loaded
    gc.set_threshold(*getattr(app, "_RARELY", _USUAL_THRESHOLDS))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for _ in sys.stdin:
            spent = runner.run(_round(directory, int(count), chunks, watch))
            sys.stdout.buffer.write(msgspec.json.encode(spent) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
