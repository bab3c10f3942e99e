"""Lost directories, wrong clocks, full disks and concurrent runs of the cold tier and the ledger lose no message."""

import os
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.cold.state import ColdState
from pipeline.context import JobContext
from pipeline.errors import LakeBusy, LakeIncomplete, SparkStopped
from pipeline.jobs import park, promote
from pipeline.ledger import KIND, lives
from pipeline.ledger.intake import take_in
from pipeline.session import session
from tests.chaos.volume import Volume
from tests.pipeline.conftest import Consume, Produce
from tests.pipeline.test_park_promote import HOUR_MS, NOW_MS, FakeWorker, header, ids
from tests.pipeline.topic_writer import TopicWriter


@pytest.fixture
def worker(context: JobContext, produce: Produce) -> FakeWorker:
    return FakeWorker(context, produce)


def live(context: JobContext, cold: str) -> set[str]:
    return {row.id for row in ColdState.of(context.lake(cold, park.KIND)).live().collect()}


def test_two_concurrent_promotions_send_the_same_messages_and_one_promotion_fails(
    context: JobContext, worker: FakeWorker, consume: Consume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker recognises the second copy, because it has the same id and the same source."""
    cold, write = str(tmp_path), type(context.kafka).write
    for name in "abc":
        worker.park(name, NOW_MS)
    park.park(context, context.lake(cold, park.KIND))

    def write_after_another_promotion(*arguments: Any) -> None:
        monkeypatch.undo()
        assert promote.promote(context, cold, HOUR_MS) == 3
        write(*arguments)

    monkeypatch.setattr(type(context.kafka), "write", write_after_another_promotion)
    with pytest.raises(LakeBusy):
        promote.promote(context, cold, HOUR_MS)

    messages = consume(context.topic("requests"))
    assert Counter(ids(messages)) == {"a": 2, "b": 2, "c": 2}
    names = ("delay-id", "delay-source", "delay-at")
    commands = {tuple(header(message, name) for name in names) for message in messages}
    assert len(commands) == 3
    assert promote.promote(context, cold, HOUR_MS) == 0


def test_a_directory_without_its_commit_log_is_not_written_as_a_new_table(
    context: JobContext, worker: FakeWorker, tmp_path: Path
) -> None:
    """It may have records that Kafka no longer has."""
    cold = tmp_path / "cold"
    for name in "ab":
        worker.park(name, NOW_MS)
        park.park(context, context.lake(str(cold), park.KIND))
    log = shutil.move(cold / "_delta_log", tmp_path / "kept")
    with pytest.raises(LakeIncomplete, match=rf"^{cold} has files, .*/kind=messages/"):
        park.park(context, context.lake(str(cold), park.KIND))
    shutil.move(log, cold / "_delta_log")
    assert live(context, str(cold)) == {"a", "b"}


def test_a_deleted_ledger_is_built_again_from_the_records_of_kafka(
    context: JobContext, produce: Produce, tmp_path: Path
) -> None:
    topics, counts = TopicWriter(context, produce), []
    for _ in range(3):
        topics.life(topics.request())
    for name in ("first", "second"):
        lake = context.lake(str(tmp_path / name), KIND)
        take_in(context, lake)
        counts.append([row.asDict() for row in lives(lake).groupBy("ending").count().collect()])
        shutil.rmtree(tmp_path / name)
    assert counts == [[{"ending": "delivered", "count": 3}]] * 2


def test_with_a_clock_that_is_five_minutes_ahead_promote_sends_the_same_messages_earlier(
    context: JobContext, worker: FakeWorker, consume: Consume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An early promotion does not make a delivery early, because the worker fires by its own clock."""
    cold = str(tmp_path)
    due_ms = time.time_ns() // 1_000_000 + HOUR_MS
    for name, message_due_ms in {"in": due_ms + 240_000, "out": due_ms + 400_000}.items():
        worker.park(name, message_due_ms)
    park.park(context, context.lake(cold, park.KIND))
    assert promote.promote(context, cold, HOUR_MS) == 0
    true_time_ns = time.time_ns
    monkeypatch.setattr("pipeline.jobs.promote.time.time_ns", lambda: true_time_ns() + 300_000_000_000)
    assert promote.promote(context, cold, HOUR_MS) == 1
    monkeypatch.undo()
    assert promote.promote(context, cold, HOUR_MS) == 0, "with the true clock, promote does not send the message again"
    [message] = consume(context.topic("requests"))
    assert (header(message, "delay-id"), header(message, "delay-at")) == ("in", str(due_ms + 240_000))


def test_a_full_disk_stops_park_with_an_error_and_loses_no_message(
    context: JobContext, worker: FakeWorker, tmp_path: Path
) -> None:
    cold = str(tmp_path / "disk" / "cold")
    with Volume(tmp_path / "disk", 8 << 20) as volume:
        for number in range(20):
            worker.park(f"m{number}", NOW_MS, value=os.urandom(100_000))
        park.park(context, context.lake(cold, park.KIND))
        for number in range(20, 40):
            worker.park(f"m{number}", NOW_MS, value=os.urandom(100_000))
        volume.fill(1 << 20)
        with pytest.raises(SparkStopped, match="the disk is full"), session("full"):
            park.park(context, context.lake(cold, park.KIND))
        assert live(context, cold) == {f"m{number}" for number in range(20)}
        volume.make_room()
        park.park(context, context.lake(cold, park.KIND))
        assert live(context, cold) == {f"m{number}" for number in range(40)}
