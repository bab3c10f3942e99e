"""The effects of requests and commands on a partition, and their events."""

import gc
import weakref
import zlib

import msgspec
import pytest

from app.engine.ingest.ingest import crc_of
from app.engine.steps.step import Step
from tables import RecordStamp, keys
from tests.app.workbench import Workbench, source
from tests.punctual.contract.records import NOW, FakeRecord
from tests.tables.rows import assert_sound

SOON, LATER = NOW + 60_000, NOW + 120_000


def test_a_request_is_accepted_and_waits(bench: Workbench) -> None:
    asked = bench.schedule("a", SOON, user="1")

    assert bench.pending() == {"a": SOON}
    assert bench.events == [
        {"event": "accepted", "id": "a", "at": NOW, "source": asked, "due": SOON, "to": "orders"},
    ]
    row = bench.store.find("a")
    assert row == keys.row_key(SOON, 0, keys.topic_crc("delay-requests"))
    entry = bench.store.entry(row or b"")
    assert entry is not None
    assert (entry.key, entry.value, entry.headers, entry.source) == (b"k", b"v", [("user", b"1")], asked)


def test_everything_that_a_request_says_waits_with_it(bench: Workbench) -> None:
    bench.ask(
        delay_to="orders",
        delay_at=str(SOON),
        delay_to_partition="7",
        delay_to_cluster="emea",
        delay_max_late="1",
        delay_if_late="drop",
        delay_dedupe="2",
    )
    ((_, entry),) = bench.store.rows()

    assert (entry.partition, entry.cluster, entry.max_late_ms, entry.if_late, entry.dedupe_ms) == (
        7,
        "emea",
        1,
        "drop",
        2,
    )


def test_a_request_without_an_id_is_known_by_where_it_is(bench: Workbench) -> None:
    record = bench.ask(delay_to="orders", delay_at=str(SOON))

    assert bench.pending() == {source(record): SOON}
    bench.command("cancel", source(record))
    assert bench.pending() == {}


def test_a_message_due_in_the_past_is_accepted_and_due_at_once(bench: Workbench) -> None:
    bench.schedule("a", 0)

    assert [keys.due_of(row) for row, _ in bench.store.due(NOW, b"", 10)[0]] == [0]


def test_a_request_of_a_pending_id_replaces_it_as_a_whole(bench: Workbench) -> None:
    first = bench.schedule("a", SOON, user="1")
    second = bench.schedule("a", LATER)

    assert bench.pending() == {"a": LATER}
    assert [entry.headers for _, entry in bench.store.rows()] == [[]]
    assert bench.told() == [("accepted", first, None), ("accepted", second, None), ("replaced", first, second)]


def test_cancel_removes_the_message(bench: Workbench) -> None:
    asked = bench.schedule("a", SOON)
    by = bench.command("cancel", "a")

    assert bench.pending() == {}
    assert bench.events[-1] == {
        "event": "cancelled",
        "id": "a",
        "at": NOW,
        "source": asked,
        "due": SOON,
        "to": "orders",
        "by": by,
    }


def test_reschedule_moves_it_there_and_back_with_the_same_content(bench: Workbench) -> None:
    asked = bench.schedule("a", SOON, user="1")
    before = next(iter(bench.store.rows()))[1]
    there = bench.command("reschedule", "a", delay_at=str(LATER))

    assert bench.pending() == {"a": LATER}
    back = bench.command("reschedule", "a", delay_after="60000")
    assert bench.pending() == {"a": SOON}
    assert [entry for _, entry in bench.store.rows()] == [msgspec.structs.replace(before, moved=RecordStamp(NOW, back))]
    assert bench.told()[1:] == [("rescheduled", asked, there), ("rescheduled", asked, back)]
    assert bench.events[-1]["due"] == SOON
    assert_sound(bench.store)


def test_there_and_back_in_one_step_is_one_move(bench: Workbench) -> None:
    bench.schedule("a", SOON)
    bench.read(
        [
            bench.log.record(delay_op="reschedule", delay_id="a", delay_at=str(LATER)),
            bench.log.record(delay_op="reschedule", delay_id="a", delay_at=str(SOON)),
        ]
    )

    assert bench.pending() == {"a": SOON}
    assert bench.store.find("a") == keys.row_key(SOON, 2, keys.topic_crc("delay-requests"))
    assert_sound(bench.store)


def test_deliver_now_is_due_at_the_commands_time_not_at_the_workers(bench: Workbench) -> None:
    asked = bench.schedule("a", LATER)
    by = source(bench.ask(NOW + 7, delay_op="deliver-now", delay_id="a"))

    assert bench.pending() == {"a": NOW + 7}
    assert bench.told()[-1] == ("rescheduled", asked, by)


@pytest.mark.parametrize("op", ["cancel", "reschedule", "deliver-now"])
def test_a_command_that_expects_another_due_time_is_a_conflict(bench: Workbench, op: str) -> None:
    asked = bench.schedule("a", SOON)
    by = bench.command(op, "a", delay_at=str(LATER), delay_if_due=str(SOON + 1))

    assert bench.pending() == {"a": SOON}
    assert bench.told()[-1] == ("conflict", asked, by)
    assert bench.events[-1]["due"] == SOON


@pytest.mark.parametrize("op", ["cancel", "reschedule", "deliver-now"])
def test_a_command_that_expects_the_right_due_time_applies(bench: Workbench, op: str) -> None:
    bench.schedule("a", SOON)
    bench.command(op, "a", delay_at=str(LATER), delay_if_due=str(SOON))

    assert bench.pending() == {"cancel": {}, "reschedule": {"a": LATER}, "deliver-now": {"a": NOW}}[op]


@pytest.mark.parametrize("op", ["cancel", "reschedule", "deliver-now"])
def test_a_command_for_an_unknown_id_has_no_effect(bench: Workbench, op: str) -> None:
    by = bench.command(op, "a", delay_at=str(LATER))

    assert bench.pending() == {}
    assert bench.events == [{"event": "unknown", "id": "a", "at": NOW, "source": by, "by": by}]


def test_several_commands_on_one_id_in_one_step_apply_in_their_order(bench: Workbench) -> None:
    record = bench.log.record
    events = bench.read(
        [
            record(delay_op="cancel", delay_id="a"),
            record(NOW + 1, delay_id="a", delay_to="orders", delay_at=str(SOON)),
            record(delay_op="reschedule", delay_id="a", delay_at=str(LATER)),
            record(delay_op="reschedule", delay_id="a", delay_at="5", delay_if_due=str(SOON)),
            record(delay_id="a", delay_to="payments", delay_at=str(SOON)),
            record(delay_op="cancel", delay_id="a"),
            record(delay_op="deliver-now", delay_id="a"),
            record(delay_id="a", delay_to="orders", delay_at=str(LATER)),
            record(delay_op="deliver-now", delay_id="a"),
        ]
    )

    assert [event["event"] for event in events] == [
        "unknown",
        "accepted",
        "rescheduled",
        "conflict",
        "accepted",
        "replaced",
        "cancelled",
        "unknown",
        "accepted",
        "rescheduled",
    ]
    assert bench.pending() == {"a": NOW}
    assert_sound(bench.store)


def test_records_that_were_read_before_have_no_effect(bench: Workbench) -> None:
    records = [
        bench.log.record(delay_id="a", delay_to="orders", delay_at=str(SOON)),
        bench.log.record(delay_op="cancel", delay_id="b"),
        bench.log.record(nonsense="1"),
    ]
    bench.read(records)
    told, sent = len(bench.events), len(bench.sends)

    assert bench.read(records) == []
    assert bench.read(records[1:]) == []
    bench.close()
    bench.open()
    assert bench.read(records) == []
    assert (len(bench.events), len(bench.sends)) == (told, sent)


def test_a_chunk_that_was_read_in_part_goes_on_where_it_was(bench: Workbench) -> None:
    records = [bench.log.record(delay_to="orders", delay_at=str(SOON)) for _ in range(5)]
    bench.read(records[:3])
    bench.read(records)

    assert len(bench.pending()) == 5
    assert len(bench.events) == 5


def test_a_position_names_the_last_record_by_its_time_and_content(bench: Workbench) -> None:
    bench.read([FakeRecord([], b"k", None, offset=6, partition=0), FakeRecord([], b"", b"kv", offset=9, partition=0)])
    position = bench.store.positions["delay-requests"]

    assert (position.offset, position.timestamp_ms) == (10, NOW)
    assert position.crc == zlib.crc32(b"kv")


# refusals -----------------------------------------------------------------------------------------------------------
def test_a_refused_request_is_a_dead_letter_and_leaves_its_neighbours_alone(bench: Workbench) -> None:
    bad = bench.log.record(delay_to="orders", delay_at="soon", user="1")
    bench.read([bench.log.record(delay_id="a", delay_to="orders", delay_at=str(SOON)), bad])
    bench.schedule("b", SOON)

    assert bench.pending() == {"a": SOON, "b": SOON}
    assert bench.events[1] == {
        "event": "refused",
        "id": source(bad),
        "at": NOW,
        "source": source(bad),
        "reason": "malformed",
    }
    (dead_letter,) = bench.sends
    assert (dead_letter.topic, dead_letter.partition, dead_letter.key, dead_letter.value) == (
        "delay-dead-letters",
        0,
        b"k",
        b"v",
    )
    assert dead_letter.headers[:3] == [("delay-to", b"orders"), ("delay-at", b"soon"), ("user", b"1")]


@pytest.mark.parametrize("said", [{}, {"delay_to_partition": "0"}])
def test_a_destination_that_does_not_exist_is_refused(bench: Workbench, said: dict[str, str]) -> None:
    bench.partitions_of = lambda _: 0
    bench.schedule("a", SOON, **said)

    assert bench.events[-1]["reason"] == "unknown-topic"
    sentence = (
        "topic 'orders' does not exist, or this worker has no permission for it. Create it, or grant WRITE on it to "
        "the worker's principal. Then send the request again."
    )
    assert ("delay-error", sentence.encode()) in bench.sends[-1].headers


def test_a_destination_partition_that_does_not_exist_is_refused(bench: Workbench) -> None:
    bench.schedule("a", SOON, delay_to_partition="8")
    bench.schedule("b", SOON, delay_to_partition="7")

    assert bench.events[0]["reason"] == "unknown-topic"
    assert dict(bench.sends[0].headers)["delay-error"] == (
        b"topic orders has partitions 0 to 7, but delay-to-partition is 8."
    )
    assert set(bench.pending()) == {"b"}


def test_what_other_clusters_have_is_not_asked_of_ours(bench: Workbench) -> None:
    bench.partitions_of = lambda _: 0
    bench.schedule("a", SOON, delay_to_cluster="emea")

    assert bench.pending() == {"a": SOON}


def test_a_message_that_the_changelog_would_not_take_is_refused_before_it_replaces_anything(bench: Workbench) -> None:
    bench.schedule("a", SOON)
    bench.limits.row = 200
    bench.schedule("a", LATER, user="x" * 200)

    assert bench.pending() == {"a": SOON}
    assert bench.events[-1]["reason"] == "too-large"
    sentence = dict(bench.sends[0].headers)["delay-error"] or b""
    assert b"max.message.bytes of delay-delays-changelog" in sentence


@pytest.mark.parametrize(
    ("stamp", "said", "reason"),
    [
        (NOW, {"delay_at": str(NOW + 86_400_000 * 1_900)}, "too-far"),
        (NOW + 120_000, {}, "bad-timestamp"),
        (-1, {}, "bad-timestamp"),
        (NOW, {"delay_on_failure": "https://example.com/back"}, "not-allowed"),
        (NOW, {"delay_to_cluster": "nowhere"}, "unknown-cluster"),
    ],
)
def test_an_allowed_topic_does_not_allow_other_topics(
    bench: Workbench, stamp: int, said: dict[str, str], reason: str
) -> None:
    bench.schedule("a", SOON)

    bench.ask(stamp, **{"delay_to": "orders", "delay_at": str(SOON), **said})

    assert bench.events[-1]["event"] == "refused"
    assert bench.events[-1]["reason"] == reason


class _Watched(FakeRecord):
    """A record whose end can be seen."""


def test_records_that_are_refused_are_given_back_at_once(bench: Workbench) -> None:
    """A refusal that kept its frames, or those of its cause, would keep all records of the call until a collection."""
    records = [_Watched([("delay-to", b"orders"), ("delay-at", b"foo")], b"k", b"v") for _ in range(3)]
    gone = [weakref.ref(record) for record in records]
    gc.disable()
    try:
        found = bench.ingest.read(Step(NOW, NOW), records)
        assert [getattr(refusal, "reason", "") for _, refusal in found] == ["malformed"] * 3
        del found, records
        assert [one() for one in gone] == [None] * 3
    finally:
        gc.enable()


def test_a_record_is_known_again_by_the_beginning_of_its_value() -> None:
    """A value that is far too large costs its sender little if it is compressed."""
    largest = bytes(4 << 20)

    assert crc_of(b"k", largest + b"more") == crc_of(b"k", largest)
    assert crc_of(b"k", largest[:-1] + b"x") != crc_of(b"k", largest)
