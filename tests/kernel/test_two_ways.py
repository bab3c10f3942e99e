"""A partition that reads with the kernel does, step for step, what one does that reads everything in Python."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.steps.step import Step
from tables import compiled
from tests.app.workbench import Workbench
from tests.kernel.batches import Asked, Headers, plain, unpacked
from tests.kernel.built import kernel
from tests.punctual.contract.records import NOW

_IDS = st.integers(0, 12).map(lambda number: b"id-%d" % number)
_DUE = st.integers(1, 10**6).map(lambda after: b"%d" % (NOW + after))
_USERS: st.SearchStrategy[Headers] = st.lists(st.just(("trace", b"1")), max_size=2)


@st.composite
def _schedules(draw: st.DrawFn) -> Headers:
    headers = [("delay-to", draw(st.sampled_from([b"orders"] * 9 + [b"gone"]))), ("delay-at", draw(_DUE))]
    if draw(st.booleans()):
        headers.append(("delay-id", draw(_IDS)))
    if draw(st.integers(0, 9)) == 0:
        headers.append(
            draw(st.sampled_from([("delay-max-late", b"PT1S"), ("delay-dedupe", b"PT1M"), ("delay-nonsense", b"")]))
        )
    return headers + draw(_USERS)


@st.composite
def _commands(draw: st.DrawFn) -> Headers:
    op = draw(st.sampled_from([b"cancel", b"reschedule", b"deliver-now"]))
    headers: Headers = [("delay-op", op), ("delay-id", draw(_IDS))]
    if op == b"reschedule":
        headers.append(("delay-at", draw(_DUE)))
    return headers


_RECORDS = st.lists(
    st.builds(
        Asked,
        st.integers(NOW - 1_000, NOW + 1_000),
        st.one_of(st.none(), st.binary(max_size=4)),
        st.one_of(st.none(), st.binary(max_size=40)),
        st.one_of(*[_schedules()] * 4, _commands()),
    ),
    min_size=1,
    max_size=12,
)
#: Records that come, or how many of the next rows are delivered.
_WORK = st.lists(st.one_of(_RECORDS, st.integers(1, 8)), min_size=1, max_size=8)


@contextmanager
def _reading(*, compiled_path: bool) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "kernel", kernel if compiled_path else None)
        yield


class Side:
    """A partition that is read in one of the two ways."""

    def __init__(self, path: Path, *, compiled_path: bool, watermark_ms: int) -> None:
        """Open it."""
        self.compiled, self.offset = compiled_path, 0
        with self.way():
            self.bench = Workbench(path, DELAY_PARTITIONS="1")
            self.bench.partitions_of = lambda topic: 0 if topic == "gone" else 8
            self.bench.memory.watermark_ms = watermark_ms

    def way(self) -> Any:
        """Read its own way."""
        return _reading(compiled_path=self.compiled)

    def take(self, asked: Sequence[Asked]) -> Step:
        """Take records in, in a step."""
        topic, bench, step = self.bench.settings.requests, self.bench, Step(self.bench.now_ms)
        records = unpacked(asked, self.offset, topic, 0)
        if not self.compiled:
            records = [plain(record) for record in records]
        self.offset += len(records)
        begin = 0
        while begin < len(records):
            begin += bench.ingest.take_usual(step, records, begin, len(records), bench.partitions_of, 1 << 30)
            rest = records[begin : begin + 2]
            if rest:
                bench.ingest.apply(step, bench.ingest.read(step, rest), bench.partitions_of, 1 << 30)
            begin += len(rest)
        return step

    def deliver(self, count: int) -> Step:
        """Have the next rows delivered, in a step."""
        bench, step = self.bench, Step(self.bench.now_ms)
        found, _ = bench.store.due(NOW + 10**7, b"", count)
        claims: Any = bench.claims
        claims.clear()
        claims.update(found)
        if not self.compiled:
            claims.items()  # decodes them
        if found:
            bench.outcomes.apply(step, bench.delivered(*(key for key, _ in found)))
        return step


@settings(max_examples=300, deadline=None)
@given(_WORK, st.sampled_from([-1, NOW - 1, NOW + 5_000]))
def test_both_ways_do_the_same(work: list[list[Asked] | int], watermark_ms: int) -> None:
    with TemporaryDirectory() as directory:
        sides = [
            Side(Path(directory) / str(way), compiled_path=way, watermark_ms=watermark_ms) for way in (True, False)
        ]
        try:
            for one in work:
                done = []
                for side in sides:
                    with side.way():
                        step = side.deliver(one) if isinstance(one, int) else side.take(one)
                        changes = sorted(step.changes.records(1), key=repr)
                        told = list(itertools.chain.from_iterable(step.events))
                        done.append((changes, told, step.sends, step.kinds, step.fired, step.ids))
                        side.bench.apply(step)
                assert done[0] == done[1]
            stored = [list(side.bench.store._db.items()) for side in sides]
            assert stored[0] == stored[1]
        finally:
            for side in sides:
                side.bench.close()


@pytest.mark.parametrize("watermark_ms", [NOW + 5_000, NOW])
def test_most_of_it_goes_by_the_kernel(watermark_ms: int) -> None:
    with TemporaryDirectory() as directory:
        side = Side(Path(directory) / "0", compiled_path=True, watermark_ms=watermark_ms)
        due = [[("delay-to", b"orders"), ("delay-at", b"%d" % (NOW + number))] for number in range(40)]
        asked = [Asked(NOW, None, b"x", [*one, ("delay-id", b"id-%d" % n)]) for n, one in enumerate(due)]
        with side.way():
            side.bench.apply(side.take(asked[:1]))  # where it may go is not known before
            side.bench.apply(side.take(asked[1:20]))
            removed = side.deliver(30)
            side.bench.apply(removed)
            taken = side.take(asked[20:])
            remembered = side.bench.store.orders.count
            side.bench.close()

    assert len(removed.changes.gone) == 20
    assert len(taken.changes.usual) == 20
    assert not taken.changes.puts
    assert remembered == (20 if watermark_ms == NOW else 0)
