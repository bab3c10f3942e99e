"""Every worker knows all controls before it delivers, and follows them, even if their topic changes."""

import asyncio
import logging
from typing import Any, cast

import pytest

from app.base.errors import TopicMismatch
from app.engine.throttle import controls as module
from app.engine.throttle.control import Control
from app.engine.throttle.controls import Controls
from app.settings.settings import Settings
from tests.app.fake_topic import Log, Reader


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setattr(module, "PartitionReader", made.reader)
    return made


@pytest.fixture
def changes() -> list[int]:
    return []


@pytest.fixture
def controls(log: Log, changes: list[int]) -> Controls:
    made = Controls(Settings.from_env({}).topics, Settings.from_env({}).engine, cast("Any", None))
    made.changed = lambda: changes.append(len(made.known))
    log.begin = 0
    return made


PAUSED = b'{"paused": true}'


async def test_the_last_record_of_a_destination_counts(log: Log, controls: Controls, changes: list[int]) -> None:
    log.records += [(b"orders", PAUSED), (b"sms", PAUSED), (b"orders", b'{"rate": "none"}'), (b"sms", None)]
    await controls.read()
    assert controls.known == {(None, "orders"): Control(unlimited=True)}
    assert changes == [1]
    await controls.read()
    assert changes == [1]
    log.records.append((b"orders", None))
    await controls.read()

    assert controls.known == {}
    assert changes == [1, 0]


async def test_an_invalid_control_is_skipped_and_the_earlier_one_stays_in_force(log: Log, controls: Controls) -> None:
    log.records += [(b"orders", PAUSED), (b"orders", b"{"), (None, PAUSED), (b"a b", PAUSED), (b"orders", b"\xff")]
    await controls.read()

    assert controls.known == {(None, "orders"): Control(paused=True)}


async def test_no_more_destinations_are_kept_than_can_be_compared_each_time(
    log: Log, controls: Controls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    log.records += [(b"a", PAUSED), (b"b", PAUSED), (b"c", PAUSED), (b"b", b'{"rate": "none"}')]
    await controls.read()
    assert controls.known == {(None, "a"): Control(paused=True), (None, "b"): Control(unlimited=True)}

    log.records += [(b"a", None), (b"c", PAUSED)]
    await controls.read()
    assert controls.known == {(None, "b"): Control(unlimited=True), (None, "c"): Control(paused=True)}


async def test_a_recreated_topic_is_read_from_its_beginning(log: Log, controls: Controls) -> None:
    log.records += [(b"orders", PAUSED), (b"sms", PAUSED)]
    await controls.read()
    log.records[:] = [(b"letters", PAUSED)]
    await controls.read()
    assert set(controls.known) == {(None, "letters")}

    log.records += [(b"x", PAUSED), (b"y", PAUSED), (b"z", PAUSED)]
    log.begin = 3  # unread records were deleted
    await controls.read()
    assert set(controls.known) == {(None, "letters"), (None, "z")}, "known controls stay in force"


async def test_a_topic_whose_first_records_were_deleted_stops_the_start_until_that_is_accepted(
    log: Log, controls: Controls, caplog: pytest.LogCaptureFixture
) -> None:
    log.records += [(b"orders", PAUSED), (b"sms", PAUSED)]
    await controls.assure_whole()
    log.begin = 1
    with pytest.raises(TopicMismatch, match=r"begins at offset 1: .* DELAY_ACCEPT_LOSS=delay-controls"):
        await controls.assure_whole()

    accepting = Controls(
        Settings.from_env({"DELAY_ACCEPT_LOSS": "delay-controls"}).topics,
        Settings.from_env({"DELAY_ACCEPT_LOSS": "delay-controls"}).engine,
        cast("Any", None),
    )
    await accepting.assure_whole()
    assert "DELAY_ACCEPT_LOSS accepts this" in caplog.text
    await accepting.read()
    assert set(accepting.known) == {(None, "sms")}


async def test_delivery_waits_until_the_controls_are_read_and_the_wait_is_logged(
    log: Log, controls: Controls, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_WARN_S", 0.01)
    log.records.append((b"orders", PAUSED))
    log.away.clear()
    reading = asyncio.ensure_future(controls.read())
    with caplog.at_level(logging.ERROR):
        while len(caplog.messages) < 2:  # noqa: ASYNC110 - it comes about by itself
            await asyncio.sleep(0.005)
    assert not reading.done()
    assert "delay-controls cannot be read. The last known pauses and rates stay in force" in caplog.messages[0]
    log.away.set()
    await reading

    assert set(controls.known) == {(None, "orders")}


async def test_records_of_a_cancelled_reader_are_read_again(
    log: Log, controls: Controls, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.records += [(b"orders", PAUSED), (b"sms", PAUSED)]
    held = asyncio.Event()

    async def held_up(reader: Reader) -> int:
        if reader.offset == len(log.records):
            held.set()
            await asyncio.Event().wait()
        return reader.offset

    with monkeypatch.context() as patch:
        patch.setattr(Reader, "position", held_up)
        reading = asyncio.ensure_future(controls.read())
        await held.wait()
        reading.cancel()
        await asyncio.wait([reading])
    await controls.read()

    assert set(controls.known) == {(None, "orders"), (None, "sms")}
