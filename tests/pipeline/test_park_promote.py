"""A parked message is promoted completely, once and in time, and not at all after a cancel or a new schedule."""

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


class FakeWorker:
    """Writes to partition 1 of the cold topic as a worker does."""

    def __init__(self, context: JobContext, produce: Produce) -> None:
        self._topic, self._produce, self._source = context.topic("cold"), produce, 0

    def park(
        self, id_: str | None, due_ms: int, headers: list[Any] | None = None, epoch: int = 1, **record: Any
    ) -> str:
        """Park a message and return its source, which is also its id by default."""
        self._source += 1
        source = f"requests-1-{self._source}"
        own_headers = {"delay-op": "schedule", "delay-id": id_ or source, "delay-to": "there", "delay-at": due_ms}
        self._send([*(headers or []), *own_headers.items()], source, epoch, **{"value": b"v", **record})
        return source

    def touch(self, id_: str, op: str = "schedule", epoch: int = 1, **headers: int) -> None:
        """Write a command for an id that may be parked; `headers` are its due time `at` and its `if_due`."""
        self._source += 1
        own_headers = {f"delay-{name.replace('_', '-')}": value for name, value in headers.items()}
        self._send([("delay-op", op), ("delay-id", id_), *own_headers.items()], f"requests-1-{self._source}", epoch)

    def _send(self, headers: list[Any], source: str, epoch: int, **record: Any) -> None:
        stamps = [("delay-source", source), ("delay-parked", NOW_MS), ("delay-epoch", epoch)]
        encoded = [
            (name, str(value).encode() if isinstance(value, str | int) else value) for name, value in headers + stamps
        ]
        self._produce(self._topic, record.pop("value", None), headers=encoded, partition=1, **record)


@pytest.fixture
def worker(context: JobContext, produce: Produce) -> FakeWorker:
    return FakeWorker(context, produce)


def header(message: Message, name: str) -> str:
    [value] = [value for key, value in message.headers() if key == name]
    return str(value.decode())


def ids(messages: list[Message]) -> list[str]:
    return [header(message, "delay-id") for message in messages]


def test_a_promoted_message_has_the_key_value_headers_and_policies_that_it_was_parked_with(
    context: JobContext, worker: FakeWorker, consume: Consume, tmp_path: Path
) -> None:
    user_headers = [("a", b"1"), ("b", None), ("a", b"2"), ("\u00fc", b"\xff")]
    policies = [
        ("delay-max-late", "5000"),
        ("delay-if-late", "drop"),
        ("delay-dedupe", "PT1H"),
        ("delay-to-partition", "2"),
    ]
    source = worker.park("x", NOW_MS + 100, [*user_headers, *policies], key=b"\x00k", value=b"\x00\xff")
    worker.park(None, NOW_MS + 50, value=None)
    cold = str(tmp_path)
    assert park(context, context.lake(cold, KIND)) == 2

    assert promote(context, cold, HOUR_MS) == 2

    first, second = consume(context.topic("requests"))
    assert (first.key(), first.value(), first.partition()) == (None, None, 1), (
        "messages are promoted in the order of their due times"
    )
    assert header(first, "delay-id") == header(first, "delay-source"), "a message with an automatic id keeps it"
    assert (second.key(), second.value()) == (b"\x00k", b"\x00\xff")
    assert [pair for pair in second.headers() if not pair[0].startswith("delay-")] == user_headers
    own_headers = {name: value.decode() for name, value in second.headers() if name.startswith("delay-")}
    stamp, snapshot = own_headers.pop("delay-parked").split(",")
    assert int(stamp) == NOW_MS
    assert NOW_MS <= int(snapshot) <= time.time_ns() // 1_000_000
    expected = {"delay-to": "there", "delay-id": "x", "delay-at": str(NOW_MS + 100), "delay-source": source}
    assert own_headers == expected | dict(policies)


def test_a_parked_message_follows_the_commands_for_its_id(
    context: JobContext, worker: FakeWorker, consume: Consume, tmp_path: Path
) -> None:
    soon_ms, far_ms = NOW_MS + 1_000, NOW_MS + 100 * HOUR_MS
    for name in ("kept", "cancelled", "taken", "moved", "late-cancel", "far"):
        worker.park(name, far_ms if name in ("far", "moved") else soon_ms)
    worker.touch("cancelled", "cancel")
    worker.touch("kept", "cancel", if_due=far_ms)
    cold = str(tmp_path)
    park(context, context.lake(cold, KIND))
    worker.touch("taken")
    worker.touch("moved", "deliver-now", at=NOW_MS)
    worker.touch("kept", "reschedule", at=soon_ms + 1, if_due=soon_ms)
    park(context, context.lake(cold, KIND))
    worker.touch("late-cancel", "cancel")  # The cancel is not in the tables yet.

    assert promote(context, cold, HOUR_MS) == 2

    messages = consume(context.topic("requests"))
    assert ids(messages) == ["moved", "kept"]
    assert [header(message, "delay-at") for message in messages] == [str(NOW_MS), str(soon_ms + 1)]


def test_a_message_is_sent_once_and_again_if_no_worker_confirms_it(
    context: JobContext, worker: FakeWorker, consume: Consume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = str(tmp_path)
    worker.park("a", NOW_MS + HOUR_MS // 2)
    worker.park("b", NOW_MS + HOUR_MS // 2)
    park(context, context.lake(cold, KIND))
    assert promote(context, cold, HOUR_MS) == 2
    worker.park("late", NOW_MS + 1_000)  # Its due time is in a slice that promote has already sent.
    worker.park("next", NOW_MS + HOUR_MS + 600)
    park(context, context.lake(cold, KIND))
    assert promote(context, cold, HOUR_MS + 60_000) == 2

    worker.touch("a")
    monkeypatch.setattr("pipeline.cold.promotion.AGAIN_MS", 0)
    assert promote(context, cold, HOUR_MS + 60_000) == 3
    assert sorted(ids(consume(context.topic("requests")))) == ["a", "b", "b", "late", "late", "next", "next"]


def test_records_of_a_replaced_worker_are_ignored(context: JobContext, worker: FakeWorker, tmp_path: Path) -> None:
    lake = context.lake(str(tmp_path), KIND)
    worker.park("a", NOW_MS, epoch=1)
    worker.park("b", NOW_MS, epoch=2)
    worker.touch("a", "cancel", epoch=1)
    worker.park("c", NOW_MS, epoch=1)
    park(context, lake)
    worker.touch("b", "cancel", epoch=1)
    worker.park("d", NOW_MS, epoch=1)
    park(context, lake)

    assert {row.id for row in ColdState.of(lake).live().collect()} == {"a", "b"}


def test_a_compaction_keeps_the_parked_messages_and_deletes_all_other_rows(
    context: JobContext, worker: FakeWorker, tmp_path: Path
) -> None:
    lake = context.lake(str(tmp_path), KIND)
    for number in range(3):
        worker.park(f"m{number}", NOW_MS + 3 - number)
        worker.touch("m0", "cancel")
        park(context, lake)
    before = ColdState.of(lake).live().orderBy("id").collect()

    compact(lake)

    after = ColdState.of(context.lake(str(tmp_path), KIND))
    assert after.live().orderBy("id").collect() == before
    assert (after.messages.count(), after.voids.count()) == (2, 0)
    assert [row.due_ms for row in after.messages.collect()] == [NOW_MS + 1, NOW_MS + 2], "rows are sorted by due time"


def test_files_are_merged_after_a_number_of_runs_also_if_no_message_was_parked(
    context: JobContext, worker: FakeWorker, tmp_path: Path
) -> None:
    options = Namespace(cold=str(tmp_path), compact=False, compact_after=2, accept_gap=False, every=None)
    void_counts = []
    for _ in range(3):
        worker.touch("x")
        run(context, options)
        void_counts.append(ColdState.of(context.lake(str(tmp_path), KIND)).voids.count())
    assert void_counts == [1, 2, 0]


def test_many_messages_are_parked_in_several_files_which_are_sorted_by_due_time(
    context: JobContext, worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is true for a single partition too, because several tasks read its records."""
    monkeypatch.setattr("pipeline.kafka._PIECE", 20)
    monkeypatch.setattr("pipeline.kafka._ROWS", 20)
    due_times_ms = [NOW_MS + number * 7919 % 1_000 for number in range(60)]
    for number, due_ms in enumerate(due_times_ms):
        worker.park(f"m{number}", due_ms)
        worker.touch(f"t{number}")
    assert park(context, context.lake(str(tmp_path), KIND)) == 2 * len(due_times_ms)

    paths = tmp_path.glob("kind=messages/*/*.parquet")
    files = [parquet.ParquetFile(path).read()["due"].to_pylist() for path in paths]
    assert len(files) == 6
    assert all(due_times == sorted(due_times) for due_times in files)
    parked_ms = [round(due.timestamp() * 1_000) for due_times in files for due in due_times]
    assert sorted(parked_ms) == sorted(due_times_ms)


def test_of_two_concurrent_parks_the_second_fails_and_changes_no_row(
    context: JobContext, worker: FakeWorker, tmp_path: Path
) -> None:
    first, second = (context.lake(str(tmp_path), KIND) for _ in range(2))
    worker.park("a", NOW_MS)
    park(context, first)
    with pytest.raises(LakeBusy, match="another run writes"):
        park(context, second)

    assert ColdState.of(context.lake(str(tmp_path), KIND)).messages.count() == 1


def delete_before(offset: int, context: JobContext, admin: Any) -> None:
    """Delete the records before an offset of partition 1 of the cold topic."""
    position = TopicPartition(context.topic("cold"), 1, offset)
    admin.delete_records([position])[position].result(LIMIT_S)


def test_unread_records_that_kafka_has_deleted_are_an_error(
    context: JobContext, worker: FakeWorker, tmp_path: Path, admin: Any
) -> None:
    lake = context.lake(str(tmp_path), KIND)
    worker.park("a", NOW_MS)
    park(context, lake)
    for name in "bc":
        worker.park(name, NOW_MS)
    delete_before(2, context, admin)

    with pytest.raises(DataLost, match=r"1 of partition 1 alone, 1 in all"):
        park(context, lake)
    park(context, lake, accept_gap=True)
    assert {row.id for row in ColdState.of(lake).live().collect()} == {"a", "c"}


def test_records_that_kafka_has_deleted_before_the_first_run_are_an_error(
    context: JobContext, worker: FakeWorker, tmp_path: Path, admin: Any
) -> None:
    lake = context.lake(str(tmp_path), KIND)
    for name in "ab":
        worker.park(name, NOW_MS)
    delete_before(1, context, admin)

    with pytest.raises(DataLost, match=r"1 of partition 1 alone, 1 in all"):
        park(context, lake)
    park(context, lake, accept_gap=True)
    assert {row.id for row in ColdState.of(lake).live().collect()} == {"b"}


def test_a_promotion_without_due_messages_writes_no_commit(
    context: JobContext, worker: FakeWorker, tmp_path: Path
) -> None:
    worker.park("a", NOW_MS + 2 * HOUR_MS)
    park(context, context.lake(str(tmp_path), KIND))
    assert promote(context, str(tmp_path), HOUR_MS) == 0
    assert "promoted" not in context.lake(str(tmp_path), KIND).head.notes
    assert promote(context, str(tmp_path), 3 * HOUR_MS) == 1


def test_a_directory_without_a_cold_tier_is_an_error(context: JobContext, worker: FakeWorker, tmp_path: Path) -> None:
    worker.park("a", NOW_MS)
    with pytest.raises(OptionInvalid, match=r"there is no cold tier in .*wrong\. Check the directory, or run .*park"):
        promote(context, f"file:{tmp_path}/wrong", HOUR_MS)
    assert not (tmp_path / "wrong").exists()


def test_the_notes_of_a_promotion_have_the_offsets_that_it_has_read(
    context: JobContext, worker: FakeWorker, tmp_path: Path
) -> None:
    park(context, context.lake(str(tmp_path), KIND))
    worker.park("a", NOW_MS + 1_000)
    promote(context, str(tmp_path), HOUR_MS)  # Promote also reads messages that no run has parked yet.

    note = context.lake(str(tmp_path), KIND).head.notes["promoted"]
    assert note["upto"] == {"0": 0, "1": 1, "2": 0, "3": 0}
