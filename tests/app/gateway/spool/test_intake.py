"""Records go to Kafka, or to the spool and then to Kafka, in order, and each record gets an answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.gateway.spool.errors import SpoolFull
from app.gateway.spool.intake import Intake
from app.gateway.spool.spool import Spool
from app.gateway.spool.submission import Outcome, Refused, Taken
from app.kafka.errors import BatchRejected, NotAuthorised, SendError, TooLarge, TopicUnknown
from app.serve.messages.acceptance import Submission
from app.settings.settings import Settings
from tests.app.gateway.scripted_kafka import ScriptedKafka
from tests.harness.waiting import LIMIT_S

REQUESTS = ("delay-requests", 0)
PATIENCE_S = 0.1

Open = Callable[..., Intake]


def message(id_: str, partition: int = 0, value: bytes = b"v") -> Submission:
    return Submission("delay-requests", partition, b"k", value, [("delay-id", id_.encode())], id_)


@contextmanager
def at_once() -> Iterator[None]:
    """Check that the block does not wait for the patience, which is longer than a crowded machine needs."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.MonkeyPatch.context() as patch:
        for patience in ("PATIENCE_S", "_SHORT_S"):
            patch.setattr(f"app.gateway.spool.intake.{patience}", 2 * LIMIT_S)
        yield
    assert loop.time() - began < LIMIT_S


def fail(error: BaseException) -> None:
    raise AssertionError from error


@pytest.fixture
def kafka() -> ScriptedKafka:
    return ScriptedKafka()


@pytest.fixture
async def open_intake(tmp_path: Path, kafka: ScriptedKafka, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    monkeypatch.setattr("app.gateway.spool.intake.PATIENCE_S", PATIENCE_S)
    opened: list[Intake] = []

    def open_(**env: str) -> Intake:
        usual = {
            "DATADIR": str(tmp_path),
        }
        settings = Settings.from_env({**usual, **env})
        connection: Any = kafka
        opened.append(
            Intake(
                settings.topics,
                connection,
                Spool(settings.topics, settings.gateway, settings.gateway_path, fail),
                fail,
            )
        )
        return opened[-1]

    yield open_
    for intake in opened:
        await intake.close()


async def hand_in(intake: Intake, *ids: str, partition: int = 0) -> list[Outcome]:
    return await intake.submit([message(id_, partition) for id_ in ids])


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - a test's condition has no event
            await asyncio.sleep(0.005)


async def test_a_record_that_kafka_accepts_is_answered_with_its_partition_and_offset(
    open_intake: Open, kafka: ScriptedKafka
) -> None:
    intake = open_intake()
    kafka.log[REQUESTS] = ["before"] * 7
    [a, b, c] = await intake.submit([message("a"), message("b", 1), message("c")])
    assert a == Taken(spooled=False, partition=0, offset=7, timestamp_ms=1_000)
    assert b == Taken(spooled=False, partition=1, offset=0, timestamp_ms=1_000)
    assert c == Taken(spooled=False, partition=0, offset=8, timestamp_ms=1_000)
    assert (intake.state, intake.tally.sent) == ("up", 3)


async def test_records_that_arrive_together_are_sent_in_one_batch(open_intake: Open, kafka: ScriptedKafka) -> None:
    intake = open_intake()
    await asyncio.gather(*(hand_in(intake, str(number)) for number in range(100)))
    assert kafka.log[REQUESTS] == [str(number) for number in range(100)]
    assert kafka.batches < 5


async def test_records_without_an_answer_from_kafka_are_spooled_within_the_patience_and_sent_once_later(
    open_intake: Open, kafka: ScriptedKafka
) -> None:
    intake, loop = open_intake(), asyncio.get_running_loop()
    kafka.is_down, began = True, loop.time()
    assert await hand_in(intake, "a", "b") == [Taken(spooled=True)] * 2
    assert PATIENCE_S <= loop.time() - began < LIMIT_S
    with at_once():
        assert await hand_in(intake, "c") == [Taken(spooled=True)]
    assert (intake.state, intake.spool.count) == ("spooling", 3)
    kafka.come_back()
    await until(lambda: intake.state == "up")
    assert await hand_in(intake, "d") == [Taken(spooled=False, partition=0, offset=3, timestamp_ms=1_000)]
    assert kafka.log[REQUESTS] == ["a", "b", "c", "d"]
    assert (intake.spool.bytes, intake.tally.spooled, intake.tally.drained) == (0, 3, 3)


async def test_new_records_of_a_partition_with_spooled_records_are_spooled(
    open_intake: Open, kafka: ScriptedKafka
) -> None:
    intake = open_intake()
    kafka.is_down = True
    await hand_in(intake, "0")
    taken = ["0"]
    for number in range(1, 200):
        if number == 50:
            kafka.come_back()
        await hand_in(intake, str(number))
        taken.append(str(number))
    await until(lambda: intake.state == "up")
    assert kafka.log[REQUESTS] == taken


async def test_records_that_arrive_during_a_send_are_spooled_after_its_records(
    open_intake: Open, kafka: ScriptedKafka
) -> None:
    intake = open_intake()
    kafka.is_down = True
    first = asyncio.create_task(hand_in(intake, "a"))
    await until(lambda: kafka.pending)
    rest = [asyncio.create_task(hand_in(intake, id_)) for id_ in "bcd"]
    assert [await one for one in (first, *rest)] == [[Taken(spooled=True)]] * 4
    kafka.come_back()
    await until(lambda: intake.state == "up")
    assert kafka.log[REQUESTS] == list("abcd")


async def test_a_partition_that_is_down_does_not_hold_up_another(open_intake: Open, kafka: ScriptedKafka) -> None:
    intake = open_intake()
    kafka.is_down = True
    await hand_in(intake, "a")
    kafka.is_down = False  # for new batches; the first batch still waits
    assert await hand_in(intake, "b", partition=1) == [Taken(spooled=False, partition=1, offset=0, timestamp_ms=1_000)]
    assert await hand_in(intake, "c") == [Taken(spooled=True)]


async def test_spooled_records_are_sent_after_a_restart(open_intake: Open, kafka: ScriptedKafka) -> None:
    intake = open_intake()
    kafka.is_down = True
    await hand_in(intake, "a", "b")
    await hand_in(intake, "c", partition=2)
    await intake.close()
    with pytest.raises(SpoolFull, match="stopped"):
        await hand_in(intake, "late")
    kafka.pending.clear()  # the batches in flight are lost
    kafka.is_down = False
    again = open_intake()
    await until(lambda: again.state == "up")
    assert kafka.log == {REQUESTS: ["a", "b"], ("delay-requests", 2): ["c"]}


async def test_closing_answers_the_requests_in_progress(open_intake: Open, kafka: ScriptedKafka) -> None:
    intake = open_intake()
    kafka.is_down = True
    under_way = asyncio.create_task(hand_in(intake, "a"))
    await until(lambda: kafka.pending)
    await intake.close()
    assert await under_way == [Taken(spooled=True)]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(TooLarge("delay-requests"), "too-large"), (BatchRejected("delay-requests", "Policy"), "invalid-record")],
)
async def test_a_refused_record_is_found_among_the_others_of_its_batch(
    error: SendError, reason: str, open_intake: Open, kafka: ScriptedKafka
) -> None:
    intake = open_intake()
    kafka.refuse = lambda _, ids: error if "bad" in ids else None
    outcomes = await hand_in(intake, "a", "b", "bad", "c", "d")
    assert [isinstance(outcome, Taken) for outcome in outcomes] == [True, True, False, True, True]
    assert outcomes[2] == Refused(reason, str(error))
    assert kafka.log[REQUESTS] == ["a", "b", "c", "d"]
    assert intake.spool.count == 0


async def test_without_the_permission_to_write_records_are_refused_and_not_spooled(
    open_intake: Open, kafka: ScriptedKafka
) -> None:
    intake = open_intake()
    kafka.refuse = lambda topic, _: NotAuthorised(topic)
    [outcome] = await hand_in(intake, "a")
    assert isinstance(outcome, Refused)
    assert outcome.reason == "not-allowed"
    assert intake.spool.count == 0


async def test_records_for_a_topic_that_does_not_exist_yet_are_spooled_until_it_does(
    open_intake: Open, kafka: ScriptedKafka
) -> None:
    intake = open_intake()
    kafka.refuse = lambda topic, _: TopicUnknown(topic, 0)
    assert await hand_in(intake, "a") == [Taken(spooled=True)]
    kafka.refuse = lambda _, __: None
    await until(lambda: intake.state == "up")
    assert kafka.log[REQUESTS] == ["a"]


async def test_a_spooled_record_that_kafka_refuses_becomes_a_dead_letter_and_the_others_are_sent(
    open_intake: Open, kafka: ScriptedKafka
) -> None:
    intake = open_intake()
    kafka.is_down = True
    await hand_in(intake, "a")
    await hand_in(intake, "bad", "b")
    kafka.refuse = lambda topic, ids: TooLarge(topic) if "bad" in ids and topic == REQUESTS[0] else None
    kafka.come_back()
    await until(lambda: intake.state == "up")
    assert kafka.log == {REQUESTS: ["a", "b"], ("delay-dead-letters", 0): ["bad"]}
    assert kafka.headers["bad"]["delay-reason"] == b"too-large"
    assert b"max.message.bytes" in kafka.headers["bad"]["delay-error"]
    assert "delay-source" not in kafka.headers["bad"]
    assert intake.tally.buried == 1


async def test_a_spooled_record_whose_dead_letter_is_refused_stays_and_records_before_it_are_sent_once(
    open_intake: Open, kafka: ScriptedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.gateway.spool.lane._AGAIN_S", 0.01)
    intake = open_intake()
    kafka.is_down = True
    await hand_in(intake, "a", "bad")
    await hand_in(intake, "b")

    def refuse(topic: str, ids: list[str]) -> SendError | None:
        if topic != REQUESTS[0]:
            return NotAuthorised(topic)
        return TooLarge(topic) if "bad" in ids else None

    kafka.refuse = refuse
    kafka.come_back()
    await until(intake.trouble)
    kafka.refuse = lambda topic, ids: refuse(topic, ids) if topic == REQUESTS[0] else None
    await until(lambda: intake.state == "up")
    assert kafka.log[REQUESTS][0] == "a"
    assert kafka.log[REQUESTS].count("a") == 1
    assert kafka.log[REQUESTS][-1] == "b"
    assert kafka.log["delay-dead-letters", 0] == ["bad"]


async def test_spooled_records_wait_for_the_permission_to_write_and_the_gateway_reports_it(
    open_intake: Open, kafka: ScriptedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.gateway.spool.lane._AGAIN_S", 0.01)
    intake = open_intake()
    kafka.is_down = True
    await hand_in(intake, "a", "b")
    kafka.refuse = lambda topic, _: NotAuthorised(topic)
    kafka.come_back()
    await until(intake.trouble)
    assert "Grant WRITE" in (intake.trouble() or "")
    assert await hand_in(intake, "c") == [Taken(spooled=True)]
    kafka.refuse = lambda _, __: None
    await until(lambda: intake.state == "up")
    assert intake.trouble() is None
    assert kafka.log[REQUESTS] == ["a", "b", "c"]


async def test_with_a_full_spool_requests_are_refused_at_once(open_intake: Open, kafka: ScriptedKafka) -> None:
    intake = open_intake(DELAY_GATEWAY_SPOOL_BYTES="0")
    kafka.is_down = True
    with pytest.raises(SpoolFull):
        await hand_in(intake, "a")
    with at_once(), pytest.raises(SpoolFull):
        await hand_in(intake, "b")
    assert "Kafka is down, and the spool" in (intake.not_ready() or "")
    kafka.come_back()
    await until(lambda: intake.state == "up")
    assert intake.not_ready() is None
    [taken] = await hand_in(intake, "c")
    assert taken == Taken(spooled=False, partition=0, offset=1, timestamp_ms=1_000)  # "a" was on its way
    assert intake.tally.full >= 1


TEAMS = {
    "DELAY_INPUTS": "delays-of-a=native,delays-of-b=native",
    "DELAY_NAMESPACES": "delays-of-a=a,delays-of-b=b",
    "DELAY_GATEWAY_SPOOL_BYTES": str(1 << 20),
}


async def test_one_team_leaves_room_in_the_spool_for_others(open_intake: Open, kafka: ScriptedKafka) -> None:
    intake = open_intake(**TEAMS)
    kafka.is_down = True

    async def fill(team: str) -> None:
        for number in range(100):
            await intake.submit([message(f"{team}/{number}", value=bytes(32 << 10))])

    for team, most in (("a", 16), ("b", 8)):
        before = intake.spool.count
        with pytest.raises(SpoolFull, match=f"the share of {team} in the spool of 1048576 bytes is full"):
            await fill(team)
        assert intake.spool.count - before == most
    await intake.close()
    intake = open_intake(**TEAMS)
    with pytest.raises(SpoolFull, match="the share of a in the spool"):
        await intake.submit([message("a/more")])
    assert await intake.submit([message("c")]) == [Taken(spooled=True)]
    kafka.come_back()
    await until(lambda: not intake.spool.count)
    assert await intake.submit([message("a/again")]) != [Taken(spooled=True)]
