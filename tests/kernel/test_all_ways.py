"""A partition that processes many records per call, in Rust or Python, makes the same steps as one by one."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.ingest.plain_requests import PlainRequests
from app.engine.steps.plain_deliveries import PlainDeliveries
from app.engine.steps.step import Step
from tests.app.workbench import Workbench
from tests.harness.fuzz import share
from tests.kernel.batches import Asked, Headers, plain_records, unpacked
from tests.kernel.built import kernel, take_path
from tests.punctual.contract.records import NOW

_IDS = st.integers(0, 4).map(lambda number: b"id-%d" % number)
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


_RECORDS: st.SearchStrategy[list[Asked]] = st.lists(
    st.builds(
        Asked,
        st.integers(NOW - 1_000, NOW + 1_000),
        st.one_of(st.none(), st.binary(max_size=4)),
        st.one_of(st.none(), st.binary(max_size=40)),
        st.one_of(*[_schedules()] * 4, _commands()),
    ),
    max_size=12,
)
#: Steps: records that come, how many of the rows that are next then are delivered, and records that come after that.
_WORK = st.lists(st.tuples(_RECORDS, st.integers(0, 8), _RECORDS), min_size=1, max_size=8)


#: With the kernel, if there is one; many at a time in Python; one by one.
_WAYS = [*(["kernel"] if kernel is not None else []), "python", "one by one"]
#: The ways that take many at a time.
_many = pytest.mark.parametrize("way", _WAYS[:-1])


@contextmanager
def _reading(way: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        take_path(patch, native=way == "kernel")
        if way == "one by one":
            patch.setattr(PlainRequests, "take", lambda *given: (0, given[6]))
            patch.setattr(PlainDeliveries, "remove", lambda *given: zip(given[2], itertools.count(given[3])))
        yield


class Side:
    """A partition that is read in one of the ways."""

    def __init__(self, path: Path, way: str, *, watermark_ms: int) -> None:
        """Open it."""
        self._way, self.offset = way, 0
        with self.way():
            self.bench = Workbench(path, DELAY_PARTITIONS="1")
            self.bench.partitions_of = lambda topic: 0 if topic == "gone" else 8
            self.bench.memory.watermark_ms = watermark_ms

    def way(self) -> Any:
        """Read its own way."""
        return _reading(self._way)

    def step(self, before: Sequence[Asked] = (), count: int = 0, after: Sequence[Asked] = ()) -> Step:
        """Take records in, have the rows delivered that were next when the step began, and take more in."""
        bench, step = self.bench, Step(self.bench.now_ms)
        found, _ = bench.store.due(NOW + 10**7, b"", count) if count else ([], None)
        claims: Any = bench.claims
        claims.clear()
        claims.update(found)
        if self._way != "kernel":
            claims.items()  # decodes them
        self._take(step, before)
        if found:
            bench.outcomes.apply(step, bench.delivered(*(key for key, _ in found)))
        self._take(step, after)
        return step

    def _take(self, step: Step, asked: Sequence[Asked]) -> None:
        topic, bench = self.bench.settings.topics.requests, self.bench
        records = (unpacked if self._way == "kernel" else plain_records)(asked, self.offset, topic, 0) if asked else []
        self.offset += len(records)
        begin = 0
        while begin < len(records):
            begin += bench.ingest.take_plain(step, records, begin, len(records), bench.partitions_of, 1 << 30)
            rest = records[begin : begin + 2]
            if rest:
                bench.ingest.apply(step, bench.ingest.read(step, rest), bench.partitions_of, 1 << 30)
            begin += len(rest)


@settings(max_examples=share(150), deadline=None)
@given(_WORK, st.sampled_from([-1, NOW - 1, NOW + 5_000]))
def test_all_ways_do_the_same(work: list[tuple[list[Asked], int, list[Asked]]], watermark_ms: int) -> None:
    with TemporaryDirectory() as directory:
        sides = [Side(Path(directory) / way, way, watermark_ms=watermark_ms) for way in _WAYS]
        try:
            for one in work:
                done = []
                for side in sides:
                    with side.way():
                        step = side.step(*one)
                        changes = sorted(step.changes.records(1), key=repr)
                        told = list(itertools.chain.from_iterable(step.events))
                        done.append((changes, told, step.sends, step.kinds, step.fired, step.ids))
                        side.bench.apply(step)
                assert all(one == done[-1] for one in done)
            stored = [list(side.bench.store._db.items()) for side in sides]
            assert all(one == stored[-1] for one in stored)
        finally:
            for side in sides:
                side.bench.close()


def _requests(count: int) -> list[Asked]:
    """Return requests of ids from id-0 on, each due a millisecond after the one before."""
    due = [[("delay-to", b"orders"), ("delay-at", b"%d" % (NOW + number))] for number in range(count)]
    return [Asked(NOW, None, b"x", [*one, ("delay-id", b"id-%d" % n)]) for n, one in enumerate(due)]


@_many
@pytest.mark.parametrize("watermark_ms", [NOW + 5_000, NOW])
def test_most_rows_are_handled_many_at_a_time(watermark_ms: int, way: str) -> None:
    with TemporaryDirectory() as directory:
        side = Side(Path(directory) / "0", way, watermark_ms=watermark_ms)
        asked = _requests(40)
        with side.way():
            side.bench.apply(side.step(asked[:1]))  # where it may go is not known before
            side.bench.apply(side.step(asked[1:20]))
            removed = side.step(count=30)
            side.bench.apply(removed)
            taken = side.step(asked[20:])
            remembered = side.bench.store.commands.count
            side.bench.close()

    assert len(removed.changes.gone) == 20
    assert len(taken.changes.plain) == 20
    assert not taken.changes.puts
    assert remembered == (20 if watermark_ms == NOW else 0)


def _looked(monkeypatch: pytest.MonkeyPatch, side: Side) -> list[int]:
    """Return a list of the number of rows that each later scan reads."""
    looked, memory, end_plain = list[int](), side.bench.memory, side.bench.memory.end_plain

    def counted(step: Step, rows: list[bytes]) -> int | None:
        looked.append(len(rows))
        return end_plain(step, rows)

    monkeypatch.setattr(memory, "end_plain", counted)
    return looked


@_many
def test_plain_rows_between_rows_with_extra_state_are_still_handled_many_at_a_time(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A known row does not cause another scan of all remaining rows."""
    with TemporaryDirectory() as directory:
        side = Side(Path(directory) / "0", way, watermark_ms=NOW)
        asked = _requests(400)
        cancels = [Asked(NOW, None, None, [("delay-op", b"cancel"), ("delay-id", b"id-%d" % n)]) for n in (0, 399)]
        with side.way():
            for step in (asked[:1], asked[399:], cancels, asked):
                side.bench.apply(side.step(step))
            looked = _looked(monkeypatch, side)
            removed = side.step(count=400)
            side.bench.close()

    assert len(removed.changes.gone) > 300
    assert sum(looked) < 1_600


@_many
def test_if_all_ids_have_extra_state_few_are_examined_in_vain(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    with TemporaryDirectory() as directory:
        side = Side(Path(directory) / "0", way, watermark_ms=NOW)
        asked = _requests(400)
        with side.way():
            side.bench.apply(side.step(asked))
            side.bench.apply(side.step(count=400))  # each of them leaves a trace of its ID
            side.bench.apply(side.step(asked))
            looked = _looked(monkeypatch, side)
            side.bench.apply(side.step(count=400))
            pending = side.bench.pending()
            side.bench.close()

    assert not pending
    assert sum(looked) < 1_600


@_many
@pytest.mark.parametrize("watermark_ms", [NOW, NOW + 60])
def test_an_id_that_comes_again_in_the_step_of_its_delivery_is_found(watermark_ms: int, way: str) -> None:
    with TemporaryDirectory() as directory:
        side = Side(Path(directory) / "0", way, watermark_ms=watermark_ms)
        headers: Headers = [("delay-to", b"orders"), ("delay-at", b"%d" % (NOW + 9)), ("delay-id", b"a")]
        request = Asked(NOW + 30, None, b"x", headers)
        with side.way():
            side.bench.apply(side.step([request]))
            side.bench.apply(side.step(count=1, after=[request]))
            found = side.bench.store.find("a")
            side.bench.close()

    assert found is not None
