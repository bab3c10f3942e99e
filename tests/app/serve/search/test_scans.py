"""The scanner: a process that reads a worker's databases, and does not slow down others."""

import asyncio
import contextlib
import ctypes
import os
import platform
import shutil
import signal
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.base.places import WHO
from app.base.process import time_slice
from app.serve.search.cpu_backoff import CpuBackoff
from app.serve.search.filter import Filter
from app.serve.search.scan import END, Place, ScanQuery, scan
from app.serve.search.scanner import ScannerAnswer, ScannerQuestion, Secondaries, Secondary, answer
from app.serve.search.scans import ScanFailed, Scans
from tables import Changes, PartitionStore
from tests.harness.waiting import LIMIT_S
from tests.tables.rows import NOW, apply, entry, filled, key, put


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[dict[int, PartitionStore]]:
    made = {
        number: filled(
            tmp_path / f"{number}.db",
            {key(NOW + at, at): entry(f"{number}-{at}", "orders" if at % 2 else "mail") for at in range(100)},
        )
        for number in range(3)
    }
    yield made
    for store in made.values():
        store.close()


@pytest.fixture
async def scans(stores: dict[int, PartitionStore], tmp_path: Path) -> AsyncIterator[Scans]:
    made = Scans(lambda: {number: store.path for number, store in stores.items()}, tmp_path / "scanner")
    yield made
    await made.close()
    assert not (tmp_path / "scanner").exists() or not list((tmp_path / "scanner").glob("*.sst"))


@pytest.mark.core
async def test_pages_have_all_partitions_in_the_order_of_due_times(scans: Scans) -> None:
    after, seen = Place(), list[Place]()
    for _ in range(100):
        found = await scans.scan(ScanQuery(limit=7, after=after))
        seen += [row.place for row in found.rows]
        after = found.up_to
        if found.complete:
            break
    assert len(seen) == len(set(seen)) == 300
    assert seen == sorted(seen)


@pytest.mark.core
async def test_a_filter_counts_and_leaves_out(scans: Scans) -> None:
    found = await scans.scan(ScanQuery(filter=Filter(to="mail", due_from_ms=NOW + 50), count=True))
    assert (found.matching, found.rows, found.complete) == (75, [], True)
    assert (await scans.scan(ScanQuery(filter=Filter(id_prefix="1-"), limit=1_000), only=1)).matching == 100
    assert (await scans.scan(ScanQuery(filter=Filter(id_prefix="1-")), only=2)).matching == 0


@pytest.mark.core
async def test_a_scan_reports_its_bound_on_rows_and_the_next_scan_continues_there(scans: Scans) -> None:
    first = await scans.scan(ScanQuery(count=True, rows=100))
    assert (first.matching, first.looked_at, first.complete) == (100, 100, False)
    second = await scans.scan(ScanQuery(count=True, after=first.up_to))
    assert (second.matching, second.up_to) == (200, END)


@pytest.mark.core
async def test_steps_count_by_destination(scans: Scans) -> None:
    found = await scans.scan(ScanQuery(steps=[NOW, NOW + 10, NOW + 100], filter=Filter(due_to_ms=NOW + 99)))
    assert found.by_step == [{"mail": 15, "orders": 15}, {"mail": 135, "orders": 135}]


@pytest.mark.core
async def test_rows_written_while_the_scanner_runs_are_seen_at_once(
    scans: Scans, stores: dict[int, PartitionStore]
) -> None:
    assert (await scans.scan(ScanQuery(count=True))).matching == 300
    for turn in range(50):
        changes = Changes()
        put(changes, key(NOW + 1_000 + turn), entry(f"new-{turn}"))
        changes.remove(key(NOW + turn, turn), entry(f"0-{turn}", "orders" if turn % 2 else "mail"))
        apply(stores[0], changes)
        found = await scans.scan(ScanQuery(filter=Filter(id_prefix="new-"), limit=1_000))
        assert len(found.rows) == turn + 1
    assert (await scans.scan(ScanQuery(count=True))).matching == 300


@pytest.mark.core
async def test_a_new_store_is_opened_again(scans: Scans, stores: dict[int, PartitionStore], tmp_path: Path) -> None:
    assert (await scans.scan(ScanQuery(count=True))).matching == 300
    stores[0].wipe()
    stores[0] = filled(tmp_path / "0.db", {key(NOW): entry("other")})
    assert (await scans.scan(ScanQuery(count=True))).matching == 201
    stores.pop(1).wipe()
    assert (await scans.scan(ScanQuery(count=True))).matching == 101
    stores[1] = filled(tmp_path / "1.db", {})


@pytest.mark.core
async def test_a_new_store_is_opened_again_whatever_inodes_its_files_get(
    scans: Scans, stores: dict[int, PartitionStore], tmp_path: Path
) -> None:
    identity, before = tmp_path / "0.db" / "IDENTITY", tmp_path / "before"
    before.hardlink_to(identity)
    assert (await scans.scan(ScanQuery(count=True))).matching == 300
    stores[0].wipe()
    stores[0] = filled(tmp_path / "0.db", {key(NOW): entry("other")})
    inode = before.stat().st_ino
    before.write_bytes(identity.read_bytes())
    before.replace(identity)  # a file system may give the inode of a removed file to the next one
    assert identity.stat().st_ino == inode

    assert (await scans.scan(ScanQuery(count=True))).matching == 201


@pytest.mark.core
async def test_the_worker_continues_while_its_databases_are_read(
    scans: Scans, stores: dict[int, PartitionStore], tmp_path: Path
) -> None:
    await scans.scan(ScanQuery(count=True))
    stores[2].close()
    stores[2] = PartitionStore(tmp_path / "2.db")  # no other process has its lock
    put(changes := Changes(), key(NOW, 7), entry("again"))
    apply(stores[2], changes)
    stores[2]._db._db.compact_range(None, None)
    assert (await scans.scan(ScanQuery(count=True))).matching == 301


@pytest.mark.core
async def test_scans_of_one_partition_after_the_other_open_each_once(
    scans: Scans, stores: dict[int, PartitionStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[str]()

    class Noted(Secondary):
        def __init__(self, path: Path, own: Path) -> None:
            opened.append(path.name)
            super().__init__(path, own)

    secondaries, backoff = Secondaries(tmp_path), CpuBackoff()

    async def ask(question: ScannerQuestion, _patience_s: float) -> ScannerAnswer:
        return answer(secondaries, question, backoff)

    monkeypatch.setattr("app.serve.search.scanner.Secondary", Noted)
    monkeypatch.setattr(scans, "_ask", ask)
    for number in (0, 1) * 3:
        assert (await scans.scan(ScanQuery(count=True), only=number)).matching == 100
    assert opened == ["0.db", "1.db"]

    stores.pop(1).close()  # it is another worker's now
    await scans.scan(ScanQuery(count=True), only=0)
    assert [Path(path).name for path in secondaries._open] == ["0.db"]
    secondaries.keep(set())


@pytest.mark.slow
async def test_a_scanner_that_is_killed_fails_only_the_present_scan(scans: Scans) -> None:
    await scans.scan(ScanQuery(count=True))
    assert scans._process is not None
    os.kill(scans._process.pid, signal.SIGKILL)
    await asyncio.sleep(0.2)
    with contextlib.suppress(ScanFailed):
        await scans.scan(ScanQuery(count=True))
    assert (await scans.scan(ScanQuery(count=True))).matching == 300


@pytest.mark.slow
async def test_a_limited_number_of_scans_waits_and_later_ones_are_refused_but_jobs_have_their_turn(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, ask = asyncio.Event(), scans._ask

    async def blocked(question: ScannerQuestion, patience_s: float) -> ScannerAnswer:
        await free.wait()
        return await ask(question, patience_s)

    monkeypatch.setattr(scans, "_ask", blocked)
    asked = [asyncio.create_task(scans.scan(ScanQuery(count=True))) for _ in range(1_000)]
    jobs = [asyncio.create_task(scans.scan(ScanQuery(count=True), number, job=True)) for number in range(3)]
    await asyncio.sleep(0.01)
    refused = [one for one in asked if one.done()]
    assert len(refused) == 1_000 - 33
    with pytest.raises(ScanFailed, match="32 searches are already waiting for this worker; try again"):
        await refused[0]
    assert all(isinstance(one.exception(), ScanFailed) for one in refused)

    free.set()
    assert [found.matching for found in await asyncio.gather(*jobs)] == [100] * 3
    assert {(await one).matching for one in asked if one not in refused} == {300}
    assert (await scans.scan(ScanQuery(count=True))).matching == 300


@pytest.mark.core
async def test_searches_of_one_user_leave_room_for_others(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    free, ask = asyncio.Event(), scans._ask

    async def blocked(question: ScannerQuestion, patience_s: float) -> ScannerAnswer:
        await free.wait()
        return await ask(question, patience_s)

    async def of(who: str) -> int:
        WHO.set(who)
        return (await scans.scan(ScanQuery(count=True))).matching

    monkeypatch.setattr(scans, "_ask", blocked)
    many = [asyncio.create_task(of("ann")) for _ in range(100)]
    await asyncio.sleep(0.01)
    other = asyncio.create_task(of("bob"))
    await asyncio.sleep(0.01)
    assert (sum(not one.done() for one in many), other.done()) == (17, False)
    free.set()
    assert await other == 300
    await asyncio.gather(*many, return_exceptions=True)


def test_a_scan_rests_between_its_parts(stores: dict[int, PartitionStore], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.serve.search.scan._STRIDE", 70)
    rests: list[int] = []
    parts = [(number, store._db) for number, store in stores.items()]
    assert scan(parts, ScanQuery(count=True), lambda: rests.append(1)).matching == 300
    assert len(rests) == 4


@pytest.mark.skipif(not time_slice.supported(), reason="the kernel does not ask for slices")
@pytest.mark.slow
async def test_a_scanner_leaves_its_core_to_others_after_a_tenth_of_a_millisecond(scans: Scans) -> None:
    await scans.scan(ScanQuery(count=True))
    assert scans._process is not None
    size = 48
    attributes = ctypes.create_string_buffer(size)
    number = {"x86_64": 315, "aarch64": 275}[platform.machine()]  # sched_getattr(2)
    assert ctypes.CDLL(None).syscall(number, scans._process.pid, attributes, size, 0) == 0
    _, policy, _, nice, _, runtime_ns, _, _ = struct.unpack("IIQiIQQQ", attributes)
    own = os.getpriority(os.PRIO_PROCESS, 0)  # the tests may run with a nice value too
    assert (policy, nice, runtime_ns) == (os.SCHED_OTHER, min(19, own + 10), 100_000)


@pytest.mark.slow
async def test_a_scanner_uses_idle_cpu_and_more_if_that_is_too_little(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_slice, "supported", lambda: False)
    monkeypatch.setattr("app.serve.search.scans._IDLE_PATIENCE_S", LIMIT_S)
    await scans.close()

    def policy() -> int:
        assert scans._process is not None
        return os.sched_getscheduler(scans._process.pid) & ~os.SCHED_RESET_ON_FORK

    await scans.scan(ScanQuery(count=True))
    assert policy() == os.SCHED_IDLE
    with monkeypatch.context() as impatient:
        impatient.setattr("app.serve.search.scans._IDLE_PATIENCE_S", -2.0)  # as much as the scan itself may take
        assert (await scans.scan(ScanQuery(count=True))).matching == 300
    assert policy() == os.SCHED_OTHER
    await scans.close()
    assert (await scans.scan(ScanQuery(count=True))).matching == 300
    assert policy() == os.SCHED_IDLE


def _groups_sessions() -> bool:
    own = Path("/proc/self/autogroup")
    return own.exists() and bool(own.read_text("utf-8"))


@pytest.mark.skipif(not _groups_sessions(), reason="sessions are no groups of the scheduler here")
@pytest.mark.slow
async def test_a_scanner_is_nice_to_other_sessions_too(scans: Scans) -> None:
    await scans.scan(ScanQuery(count=True))
    assert scans._process is not None
    session = await asyncio.to_thread(Path(f"/proc/{scans._process.pid}/autogroup").read_text)
    assert session.strip().endswith(" nice 10")


async def test_missing_databases_are_reported_in_a_sentence(tmp_path: Path) -> None:
    scans = Scans(lambda: {0: tmp_path / "none.db"}, tmp_path / "scanner")
    with pytest.raises(ScanFailed, match="cannot be read now"):
        await scans.scan(ScanQuery())
    await scans.close()
    shutil.rmtree(tmp_path / "scanner", ignore_errors=True)


@pytest.mark.slow
async def test_the_scanner_ends_with_its_worker(scans: Scans) -> None:
    await scans.scan(ScanQuery(count=True))
    process = scans._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    async with asyncio.timeout(LIMIT_S):
        assert await process.wait() == 0


def test_a_cursor_survives_a_round_trip() -> None:
    place = Place(key(NOW, 5), 3)
    assert Place.parse(place.text()) == place
    assert Place.parse(Place().text()) == Place()
    for text in ("", "zz.1", "00", "00.x", "0" * 100 + ".1", "00.-2", f"00.{1 << 31}", "00." + "9" * 30):
        with pytest.raises(ValueError):  # noqa: PT011 - any is answered as a sentence
            Place.parse(text)
