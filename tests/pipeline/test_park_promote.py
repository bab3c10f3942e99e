"""Parked messages come back whole, once, in time, and not at all if they were touched."""

import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition
from pyarrow import parquet

from pipeline.cold.state import ColdState
from pipeline.context import JobContext
from pipeline.errors import DataLost, LakeBusy, OptionInvalid
from pipeline.jobs.park import KIND, compact, park, run
from pipeline.jobs.promote import promote
from tests.harness.waiting import LIMIT_S
from tests.pipeline.conftest import Consume, Produce

HOUR_MS = 3_600_000
NOW_MS = time.time_ns() // 1_000_000


class Worker:
    """Writes to the cold topic as a worker does, by default to partition 1."""

    def __init__(self, context: JobContext, produce: Produce) -> None:
        self._topic, self._produce, self._source = context.topic("cold"), produce, 0

    def parks(
        self, id_: str | None, due_ms: int, headers: list[Any] | None = None, epoch: int = 1, **record: Any
    ) -> str:
        """Park a message and return its source, which is its id if none is given."""
        self._source += 1
        source = f"requests-1-{self._source}"
        said = {"delay-op": "schedule", "delay-id": id_ or source, "delay-to": "there", "delay-at": due_ms}
        self._send([*(headers or []), *said.items()], source, epoch, **{"value": b"v", **record})
        return source

    def touches(self, id_: str, op: str = "schedule", epoch: int = 1, **headers: int) -> None:
        """Write a touch of an id, with its due time and `if_due`."""
        self._source += 1
        said = {f"delay-{name.replace('_', '-')}": value for name, value in headers.items()}
        self._send([("delay-op", op), ("delay-id", id_), *said.items()], f"requests-1-{self._source}", epoch)

    def _send(self, headers: list[Any], source: str, epoch: int, **record: Any) -> None:
        own = [("delay-source", source), ("delay-parked", NOW_MS), ("delay-epoch", epoch)]
        encoded = [
            (name, str(value).encode() if isinstance(value, str | int) else value) for name, value in headers + own
        ]
        self._produce(self._topic, record.pop("value", None), headers=encoded, partition=1, **record)


@pytest.fixture
def worker(context: JobContext, produce: Produce) -> Worker:
    return Worker(context, produce)


def header(message: Message, name: str) -> str:
    [value] = [value for key, value in message.headers() if key == name]
    return str(value.decode())


def ids(messages: list[Message]) -> list[str]:
    return [header(message, "delay-id") for message in messages]


def test_a_message_comes_back_as_it_was(context: JobContext, worker: Worker, consume: Consume, tmp_path: Path) -> None:
    mine = [("a", b"1"), ("b", None), ("a", b"2"), ("\u00fc", b"\xff")]
    policies = [
        ("delay-max-late", "5000"),
        ("delay-if-late", "drop"),
        ("delay-dedupe", "PT1H"),
        ("delay-to-partition", "2"),
    ]
    source = worker.parks("x", NOW_MS + 100, [*mine, *policies], key=b"\x00k", value=b"\x00\xff")
    worker.parks(None, NOW_MS + 50, value=None)
    cold = str(tmp_path)
    assert park(context, context.lake(cold, KIND)) == 2

    assert promote(context, cold, HOUR_MS) == 2

    first, second = consume(context.topic("requests"))
    assert (first.key(), first.value(), first.partition()) == (None, None, 1), "in the order in which they are due"
    assert header(first, "delay-id") == header(first, "delay-source"), "an automatic id stays what it was"
    assert (second.key(), second.value()) == (b"\x00k", b"\x00\xff")
    assert [pair for pair in second.headers() if not pair[0].startswith("delay-")] == mine
    said = {name: value.decode() for name, value in second.headers() if name.startswith("delay-")}
    stamp, snapshot = said.pop("delay-parked").split(",")
    assert int(stamp) == NOW_MS
    assert NOW_MS <= int(snapshot) <= time.time_ns() // 1_000_000
    expected = {"delay-to": "there", "delay-id": "x", "delay-at": str(NOW_MS + 100), "delay-source": source}
    assert said == expected | dict(policies)


def test_what_is_touched_stays_or_goes_as_it_was_told(
    context: JobContext, worker: Worker, consume: Consume, tmp_path: Path
) -> None:
    soon, far = NOW_MS + 1_000, NOW_MS + 100 * HOUR_MS
    for name in ("kept", "cancelled", "taken", "moved", "late-cancel", "far"):
        worker.parks(name, far if name in ("far", "moved") else soon)
    worker.touches("cancelled", "cancel")
    worker.touches("kept", "cancel", if_due=far)
    cold = str(tmp_path)
    park(context, context.lake(cold, KIND))
    worker.touches("taken")
    worker.touches("moved", "deliver-now", at=NOW_MS)
    worker.touches("kept", "reschedule", at=soon + 1, if_due=soon)
    park(context, context.lake(cold, KIND))
    worker.touches("late-cancel", "cancel")  # not in the tables yet

    assert promote(context, cold, HOUR_MS) == 2

    sent = consume(context.topic("requests"))
    assert ids(sent) == ["moved", "kept"]
    assert [header(message, "delay-at") for message in sent] == [str(NOW_MS), str(soon + 1)]


def test_each_is_sent_once_and_again_if_the_worker_does_not_say_that_it_has_it(
    context: JobContext, worker: Worker, consume: Consume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = str(tmp_path)
    worker.parks("a", NOW_MS + HOUR_MS // 2)
    worker.parks("b", NOW_MS + HOUR_MS // 2)
    park(context, context.lake(cold, KIND))
    assert promote(context, cold, HOUR_MS) == 2
    worker.parks("late", NOW_MS + 1_000)  # into a slice that has been sent
    worker.parks("next", NOW_MS + HOUR_MS + 600)
    park(context, context.lake(cold, KIND))
    assert promote(context, cold, HOUR_MS + 60_000) == 2

    worker.touches("a")
    monkeypatch.setattr("pipeline.cold.promotion.AGAIN_MS", 0)
    assert promote(context, cold, HOUR_MS + 60_000) == 3
    assert sorted(ids(consume(context.topic("requests")))) == ["a", "b", "b", "late", "late", "next", "next"]


def test_what_a_replaced_worker_still_wrote_does_not_count(context: JobContext, worker: Worker, tmp_path: Path) -> None:
    lake = context.lake(str(tmp_path), KIND)
    worker.parks("a", NOW_MS, epoch=1)
    worker.parks("b", NOW_MS, epoch=2)
    worker.touches("a", "cancel", epoch=1)
    worker.parks("c", NOW_MS, epoch=1)
    park(context, lake)
    worker.touches("b", "cancel", epoch=1)
    worker.parks("d", NOW_MS, epoch=1)
    park(context, lake)

    assert {row.id for row in ColdState.of(lake).live().collect()} == {"a", "b"}


def test_compacting_keeps_what_is_parked_and_deletes_the_rest(
    context: JobContext, worker: Worker, tmp_path: Path
) -> None:
    lake = context.lake(str(tmp_path), KIND)
    for number in range(3):
        worker.parks(f"m{number}", NOW_MS + 3 - number)
        worker.touches("m0", "cancel")
        park(context, lake)
    before = ColdState.of(lake).live().orderBy("id").collect()

    compact(lake)

    after = ColdState.of(context.lake(str(tmp_path), KIND))
    assert after.live().orderBy("id").collect() == before
    assert (after.messages.count(), after.voids.count()) == (2, 0)
    assert [row.due_ms for row in after.messages.collect()] == [NOW_MS + 1, NOW_MS + 2], "sorted by due time"


def test_files_are_merged_after_so_many_runs_also_if_nothing_was_parked(
    context: JobContext, worker: Worker, tmp_path: Path
) -> None:
    options = Namespace(cold=str(tmp_path), compact=False, compact_after=2, accept_gap=False, every=None)
    files = []
    for _ in range(3):
        worker.touches("x")
        run(context, options)
        files.append(ColdState.of(context.lake(str(tmp_path), KIND)).voids.count())
    assert files == [1, 2, 0]


def test_many_are_parked_in_several_files_each_sorted_by_due_time(
    context: JobContext, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for one partition too, because several tasks read its records."""
    monkeypatch.setattr("pipeline.kafka._PIECE", 20)
    monkeypatch.setattr("pipeline.jobs.park._ROWS", 20)
    due = [NOW_MS + number * 7919 % 1_000 for number in range(60)]
    for number, at in enumerate(due):
        worker.parks(f"m{number}", at)
        worker.touches(f"t{number}")
    assert park(context, context.lake(str(tmp_path), KIND)) == 2 * len(due)

    files = [parquet.ParquetFile(file).read()["due"].to_pylist() for file in tmp_path.glob("kind=messages/*/*.parquet")]
    assert len(files) == 6
    assert all(file == sorted(file) for file in files)
    assert sorted(round(at.timestamp() * 1_000) for file in files for at in file) == sorted(due)


def test_two_that_write_at_once_do_not_spoil_each_other(context: JobContext, worker: Worker, tmp_path: Path) -> None:
    one, other = (context.lake(str(tmp_path), KIND) for _ in range(2))
    worker.parks("a", NOW_MS)
    park(context, one)
    with pytest.raises(LakeBusy, match="another run writes"):
        park(context, other)

    assert ColdState.of(context.lake(str(tmp_path), KIND)).messages.count() == 1


def delete_before(offset: int, context: JobContext, admin: Any) -> None:
    """Let Kafka delete the records before an offset of the cold topic."""
    place = TopicPartition(context.topic("cold"), 1, offset)
    admin.delete_records([place])[place].result(LIMIT_S)


def test_records_that_kafka_has_deleted_unread_are_no_silent_loss(
    context: JobContext, worker: Worker, tmp_path: Path, admin: Any
) -> None:
    lake = context.lake(str(tmp_path), KIND)
    worker.parks("a", NOW_MS)
    park(context, lake)
    for name in "bc":
        worker.parks(name, NOW_MS)
    delete_before(2, context, admin)

    with pytest.raises(DataLost, match=r"1 of partition 1 alone, 1 in all"):
        park(context, lake)
    park(context, lake, accept_gap=True)
    assert {row.id for row in ColdState.of(lake).live().collect()} == {"a", "c"}


def test_nor_are_those_that_it_has_deleted_before_the_first_run(
    context: JobContext, worker: Worker, tmp_path: Path, admin: Any
) -> None:
    lake = context.lake(str(tmp_path), KIND)
    for name in "ab":
        worker.parks(name, NOW_MS)
    delete_before(1, context, admin)

    with pytest.raises(DataLost, match=r"1 of partition 1 alone, 1 in all"):
        park(context, lake)
    park(context, lake, accept_gap=True)
    assert {row.id for row in ColdState.of(lake).live().collect()} == {"b"}


def test_a_promotion_of_nothing_writes_nothing(context: JobContext, worker: Worker, tmp_path: Path) -> None:
    worker.parks("a", NOW_MS + 2 * HOUR_MS)
    park(context, context.lake(str(tmp_path), KIND))
    assert promote(context, str(tmp_path), HOUR_MS) == 0
    assert "promoted" not in context.lake(str(tmp_path), KIND).head.notes
    assert promote(context, str(tmp_path), 3 * HOUR_MS) == 1


def test_a_cold_tier_that_is_not_there_is_an_error(context: JobContext, worker: Worker, tmp_path: Path) -> None:
    worker.parks("a", NOW_MS)
    with pytest.raises(OptionInvalid, match=r"there is no cold tier in .*wrong\. Check the directory, or run .*park"):
        promote(context, f"file:{tmp_path}/wrong", HOUR_MS)
    assert not (tmp_path / "wrong").exists()


def test_the_log_of_promotions_is_readable(context: JobContext, worker: Worker, tmp_path: Path) -> None:
    park(context, context.lake(str(tmp_path), KIND))
    worker.parks("a", NOW_MS + 1_000)
    promote(context, str(tmp_path), HOUR_MS)  # what is not parked yet is promoted all the same

    note = context.lake(str(tmp_path), KIND).head.notes["promoted"]
    assert note["upto"] == {"0": 0, "1": 1, "2": 0, "3": 0}
