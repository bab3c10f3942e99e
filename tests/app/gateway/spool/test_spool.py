"""The spool on a real disk: after a crash it has exactly the accepted records, in order."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from app.base.clock import Clock
from app.gateway.spool.errors import SpoolFull, SpoolTaken, SpoolUnusable
from app.gateway.spool.spool import Spool
from app.gateway.spool.spool_store import Place, SpoolStore
from app.serve.messages.acceptance import Submission
from app.settings.settings import Settings
from tables.database import Database
from tables.errors import StoreUnusable

HERE: Place = ("delay-requests", 3)
ELSEWHERE: Place = ("delay-requests", 259)

Open = Callable[..., Spool]


def message(name: str, size: int = 10) -> Submission:
    headers: list[tuple[str, bytes | None]] = [("delay-id", name.encode()), ("trace", None), ("trace", b"\xff")]
    return Submission("delay-requests", 3, b"key", os.urandom(size), headers, name)


def fail(error: BaseException) -> None:
    raise AssertionError from error


@pytest.fixture
async def open_spool(tmp_path: Path) -> AsyncIterator[Open]:
    opened: list[Spool] = []

    def open_(**env: str) -> Spool:
        usual = {"DATADIR": str(tmp_path / "data")}
        settings = Settings.from_env({**usual, **env})
        spool = Spool(settings.topics, settings.gateway, settings.gateway_path, fail)
        opened.append(spool)
        return spool

    yield open_
    for spool in opened:
        await spool.close()


async def put(spool: Spool, place: Place, *names: str, size: int = 10) -> None:
    _, written = spool.add(place, [message(name, size) for name in names])
    await written


async def emptied(spool: Spool, place: Place) -> list[str]:
    found = []
    while spool.holds(place):
        held = await spool.read(place)
        found += [one.submission.id for one in held]
        await spool.remove(place, held)
    return found


async def test_the_records_of_each_partition_keep_their_order(open_spool: Open) -> None:
    spool = open_spool()
    first = message("first", 300)
    _, written = spool.add(HERE, [first])
    for number in range(20):
        await put(spool, ELSEWHERE, f"else-{number}")
        await put(spool, HERE, f"a-{number}", f"b-{number}")
    await written
    assert (await spool.read(HERE))[0].submission == first
    assert await emptied(spool, HERE) == ["first", *(f"{x}-{number}" for number in range(20) for x in "ab")]
    assert await emptied(spool, ELSEWHERE) == [f"else-{number}" for number in range(20)]
    assert (spool.bytes, spool.count, spool.age_s) == (0, 0, 0.0)


async def test_accepted_records_are_kept_over_a_restart_before_later_ones(
    open_spool: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool()
    await put(spool, HERE, "a", "b", "c")
    [first, *_] = await spool.read(HERE)
    await spool.remove(HERE, [first])
    size, later = spool.bytes, Clock.wall_ms() - 3_600_000
    await spool.close()
    monkeypatch.setattr(Clock, "wall_ms", lambda: later)  # the clock was set back during the stop
    again = open_spool()
    assert (again.places(), again.holds(HERE), again.bytes) == ([HERE], 2, size)
    await put(again, HERE, "d")
    assert await emptied(again, HERE) == ["b", "c", "d"]


async def test_a_record_is_accepted_only_when_it_is_on_disk(open_spool: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    spool, done = open_spool(), list[str]()
    sync = Database.sync

    def watched(self: Database) -> None:
        assert not written.done()
        sync(self)
        done.append("on disk")

    with monkeypatch.context() as patched:  # over before the spool is closed
        patched.setattr(Database, "sync", watched)
        _, written = spool.add(HERE, [message("a")])
        await written
    assert done == ["on disk"]


async def test_records_that_arrive_together_are_written_in_groups(
    open_spool: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, syncs = open_spool(), list[Database]()
    sync = Database.sync

    def counted(self: Database) -> None:
        syncs.append(self)
        sync(self)

    monkeypatch.setattr(Database, "sync", counted)
    await asyncio.gather(*(spool.add(HERE, [message(str(number))])[1] for number in range(500)))
    assert len(syncs) < 10
    assert await emptied(spool, HERE) == [str(number) for number in range(500)]


async def test_a_spool_at_its_maximum_bytes_refuses_records_until_there_is_room(open_spool: Open) -> None:
    spool = open_spool(DELAY_GATEWAY_SPOOL_BYTES="3000")
    await put(spool, HERE, "a", "b", size=1_000)
    with pytest.raises(SpoolFull, match="DELAY_GATEWAY_SPOOL_BYTES"):
        spool.add(HERE, [message("c", 1_000)])
    await spool.remove(HERE, (await spool.read(HERE))[:1])
    await put(spool, HERE, "d", size=1_000)
    assert await emptied(spool, HERE) == ["b", "d"]


@pytest.mark.parametrize("window", [{}, {"DELAY_DEDUPE_WINDOW": "PT4H"}, {"DELAY_DEDUPE_WINDOW": "P30D"}])
async def test_a_spool_whose_oldest_record_is_too_old_refuses_records_and_drops_none(
    open_spool: Open, monkeypatch: pytest.MonkeyPatch, window: dict[str, str]
) -> None:
    spool = open_spool(**window)
    await put(spool, HERE, "a")
    await put(spool, ELSEWHERE, "b")
    now = Clock.wall_ms()
    monkeypatch.setattr(Clock, "wall_ms", lambda: now + 12 * 3_600_000 - 60_000)
    spool.check()
    monkeypatch.setattr(Clock, "wall_ms", lambda: now + 12 * 3_600_000 + 60_000)
    with pytest.raises(SpoolFull, match="the oldest record in the spool is too old"):
        spool.add(ELSEWHERE, [message("c")])
    assert await emptied(spool, HERE) == ["a"]
    assert await emptied(spool, ELSEWHERE) == ["b"]
    await put(spool, HERE, "d")


async def test_a_disk_with_too_little_room_is_not_filled(open_spool: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = open_spool()
    monkeypatch.setattr("app.base.process.disk_room.FREE_BYTES", 1 << 60)
    with pytest.raises(SpoolFull, match="less than 256 MiB of disk are free"):
        spool.add(HERE, [message("a")])


async def test_records_that_the_disk_refuses_are_not_kept_and_the_others_are(
    open_spool: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool()
    await put(spool, HERE, "a")

    def full(_: Database) -> None:
        raise StoreUnusable("spool", OSError("No space left on device"))  # after it was written: it may be there

    with monkeypatch.context() as patch:
        patch.setattr(Database, "sync", full)
        _, written = spool.add(HERE, [message("b")])
        with pytest.raises(SpoolFull):
            await written
        assert spool.holds(HERE) == 1
    monkeypatch.setattr(spool._room, "_looked_s", -10.0)
    await put(spool, HERE, "c")
    assert await emptied(spool, HERE) == ["a", "c"]
    await spool.close()
    assert open_spool().count == 0


async def test_records_that_the_disk_refuses_are_not_sent(open_spool: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = open_spool()
    await put(spool, HERE, "a", "b")

    def full(_: Database) -> None:
        raise StoreUnusable("spool", OSError("Input/output error"))

    with monkeypatch.context() as patch:
        patch.setattr(Database, "sync", full)
        _, written = spool.add(HERE, [message("c"), message("d")])
        with pytest.raises(SpoolFull):
            await written
    held = await spool.read(HERE)
    assert [one.submission.id for one in held] == ["a", "b"]
    await spool.remove(HERE, held[:1])
    assert await emptied(spool, HERE) == ["b"]
    assert (spool.places(), spool.count, spool.bytes) == ([], 0, 0)
    monkeypatch.setattr(spool._room, "_looked_s", -10.0)
    await put(spool, HERE, "e")
    assert await emptied(spool, HERE) == ["e"]


async def test_sent_records_are_not_sent_again_when_the_disk_refuses_their_removal(
    open_spool: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool()
    await put(spool, HERE, "a", "b", "c")

    def full(_: Database, __: Any) -> None:
        raise StoreUnusable("spool", OSError("No space left on device"))

    with monkeypatch.context() as patch:
        patch.setattr(Database, "write", full)
        await spool.remove(HERE, (await spool.read(HERE))[:2])
        assert [one.submission.id for one in await spool.read(HERE)] == ["c"]
    await put(spool, HERE, "d")  # the disk works again: sent records are removed
    await spool.close()
    assert await emptied(open_spool(), HERE) == ["c", "d"]


async def test_an_empty_spool_frees_its_disk_space(open_spool: Open, tmp_path: Path) -> None:
    spool = open_spool()
    for number in range(40):
        await put(spool, HERE, str(number), size=1 << 20)
    assert len(await emptied(spool, HERE)) == 40
    assert sum(file.stat().st_size for file in (tmp_path / "data/gateway/spool").iterdir()) < 1 << 20
    await put(spool, HERE, "on")
    assert await emptied(spool, HERE) == ["on"]


async def test_two_gateways_never_share_a_spool(open_spool: Open) -> None:
    open_spool()
    with pytest.raises(SpoolTaken, match="DATADIR"):
        open_spool()


def as_after_a_kill(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """Copy the directory of an open spool; return what names the copy, and its log."""
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    [log] = (tmp_path / "copy/gateway/spool").glob("*.log")
    return {"DATADIR": str(tmp_path / "copy")}, log


async def test_a_damaged_spool_is_not_read_as_a_smaller_one(open_spool: Open, tmp_path: Path) -> None:
    spool = open_spool()
    for number in range(200):
        await put(spool, HERE, str(number), size=1_000)
    env, log = as_after_a_kill(tmp_path)
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0xFF
    log.write_bytes(content)
    with pytest.raises(SpoolUnusable, match="keep a copy"):
        open_spool(**env)


async def test_a_write_that_a_crash_has_cut_off_is_no_damage(open_spool: Open, tmp_path: Path) -> None:
    spool = open_spool()
    for number in range(10):
        await put(spool, HERE, str(number))
    env, log = as_after_a_kill(tmp_path)
    log.write_bytes(log.read_bytes()[:-5])
    assert await emptied(open_spool(**env), HERE) == [str(number) for number in range(9)]


def test_the_format_of_another_version_is_refused(tmp_path: Path) -> None:
    store = SpoolStore(tmp_path)
    store._database._db[b"\x00format"] = b"2"
    store.close()
    with pytest.raises(SpoolUnusable, match="another version"):
        SpoolStore(tmp_path)
