"""Queues on a real Kafka with a real worker: each message is processed at least once, whatever happens to consumers."""

import asyncio
import json
import os
import random
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import CommitFailedError

from punctual import ClientClosedError, InvalidDestinationError, InvalidOptionError, NotAuthorizedError
from punctual.queue import Breaker, DelayQueue, Message
from tests.harness.account import pending_of
from tests.harness.kafka import create_topic, read
from tests.harness.pace import usual_s
from tests.harness.queue_run import QueueRun, percentile
from tests.harness.waiting import LIMIT_S, crowd, eventually
from tests.integration.conftest import Run
from tests.integration.installation import Installation, late_ms, users

pytestmark = pytest.mark.slow

#: How long a message may take that is acknowledged immediately, however busy this machine is.
TIMEOUT = timedelta(seconds=1.5 * crowd())
#: Maximum lateness of a redelivery.
LATE_MS = 1_000


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    def env(app_id: str) -> dict[str, str]:
        policies = f"{app_id}-hasty=no-later PT1S jitter 400 max-late PT0.001S if-late drop"
        return {"DELAY_INPUTS": f"{app_id}-hasty=native", "DELAY_POLICIES": policies}

    with run("queue", env=env) as made:
        yield made


@pytest.fixture
def topic(installation: Installation) -> str:
    return installation.topic(partitions=4)


def queue_of(installation: Installation, topic: str, timeout: timedelta = TIMEOUT, **options: Any) -> DelayQueue:
    return DelayQueue(installation.bootstrap, topic, "billing", timeout, app_id=installation.app_id, **options)


def put(installation: Installation, topic: str, *values: bytes, key: bytes | None = b"k") -> None:
    for value in values:
        installation.requests.send([("trace", b"1"), ("null", None)], key, value, topic=topic)
    installation.requests.flush()


async def take(queue: DelayQueue, count: int, seconds: float = LIMIT_S) -> list[Message]:
    async with asyncio.timeout(seconds):
        return [await anext(queue) for _ in range(count)]


async def until(condition: Callable[[], object], seconds: float = LIMIT_S, what: str = "it") -> None:
    """Wait until something holds, while the queue's own tasks go on."""
    await asyncio.to_thread(eventually, condition, seconds, what)


async def settled(installation: Installation) -> None:
    """Wait until no marker is left."""
    pending = partial(pending_of, installation.bootstrap, installation.app_id)
    await until(lambda: not sum(pending().values()), what="the end of all markers")


@pytest.mark.core
async def test_an_acknowledged_message_does_not_come_back_and_others_do(installation: Installation, topic: str) -> None:
    put(installation, topic, *(b"%d" % number for number in range(10)))
    async with queue_of(installation, topic) as queue:
        for message in await take(queue, 10):
            assert (message.attempt, message.key, message.headers) == (1, b"k", (("trace", b"1"), ("null", None)))
            if message.value not in (b"3", b"7"):
                await message.ack()
        again = await take(queue, 2)
        assert {(message.value, message.attempt) for message in again} == {(b"3", 2), (b"7", 2)}
        for message in again:
            assert users(list(message.headers)) == [("trace", b"1"), ("null", None)]
            await message.ack()
            await message.ack()
        await settled(installation)
        assert (queue.stats.received, queue.stats.redelivered, queue.stats.acked) == (12, 2, 10)
        assert (queue.stats.expired, queue.unacked) == (2, 0)

    back = [record for record in installation.wait_for(topic, 12) if dict(record.headers).get("delay-due")]
    assert len(back) == 2
    assert all(0 <= late_ms(record) <= LATE_MS for record in back)


@pytest.mark.core
async def test_each_message_is_acknowledged_by_itself_in_any_order(installation: Installation, topic: str) -> None:
    put(installation, topic, *(b"%d" % number for number in range(50)))
    async with queue_of(installation, topic) as queue:
        messages = await take(queue, 50)
        for message in reversed(messages[1:]):
            await message.ack()
        [left] = await take(queue, 1)
        assert left.value == messages[0].value
        await left.ack()
        await settled(installation)


@pytest.mark.core
async def test_a_rejected_message_comes_back_at_the_requested_time(installation: Installation, topic: str) -> None:
    put(installation, topic, b"v")
    async with queue_of(installation, topic, timedelta(minutes=5)) as queue:
        [message] = await take(queue, 1)
        began = time.time()
        await message.nack(timedelta(seconds=0.5))
        [again] = await take(queue, 1)
        assert time.time() - began > 0.4
        assert usual_s(began, time.time()) < 5
        assert again.attempt == 2
        await again.ack()
        assert queue.stats.nacked == 1
        await settled(installation)


@pytest.mark.core
async def test_a_message_that_takes_longer_does_not_come_back_in_between(
    installation: Installation, topic: str
) -> None:
    put(installation, topic, b"v")
    async with queue_of(installation, topic) as queue:
        [message] = await take(queue, 1)
        await message.extend(timedelta(seconds=30))
        with pytest.raises(TimeoutError):
            await take(queue, 1, TIMEOUT.total_seconds() + 1.5)
        assert queue.unacked == 1
        await message.ack()
        await settled(installation)
        with pytest.raises(InvalidOptionError, match="is settled"):
            await message.extend(timedelta(seconds=1))


@pytest.mark.core
async def test_after_the_last_attempt_a_message_is_a_dead_letter_with_its_error(
    installation: Installation, topic: str
) -> None:
    put(installation, topic, b"refused", key=b"refused")
    put(installation, topic, b"forgotten", key=b"forgotten")
    put(installation, topic, b"too late", key=b"too late")
    async with queue_of(installation, topic, max_attempts=2) as queue:
        attempts: dict[bytes | None, list[int]] = {b"refused": [], b"forgotten": [], b"too late": []}
        last: dict[bytes | None, Message] = {}
        for _ in range(6):
            [message] = await take(queue, 1)
            attempts[message.value].append(message.attempt)
            last[message.value] = message
            if message.value == b"refused" or (message.value, message.attempt) == (b"too late", 1):
                await message.nack(timedelta(0), ValueError(f"no {message.attempt}"))
        assert attempts == {key: [1, 2] for key in (b"refused", b"forgotten", b"too late")}
        await asyncio.sleep(max(0.0, last[b"too late"].deadline - time.monotonic()))
        await last[b"too late"].nack(timedelta(0))
        letters = await asyncio.to_thread(installation.dead_letters, *attempts)
        await settled(installation)
        assert queue.stats.exhausted == 3

    made = read(installation.bootstrap, f"{installation.app_id}-dead-letters")
    assert sum(letter.key == b"too late" for letter in made) == 1
    assert {letter.header("delay-reason") for letter in letters.values()} == {"attempts-exhausted"}
    assert "2 attempts have failed" in letters[b"refused"].header("delay-error")
    assert "the last with: ValueError: no 2" in letters[b"refused"].header("delay-error")
    assert "no acknowledgement within the timeout" in letters[b"forgotten"].header("delay-error")
    assert users(letters[b"forgotten"].headers) == [("trace", b"1"), ("null", None)]


@pytest.mark.core
async def test_a_message_with_the_headers_of_another_one_is_handed_out_as_often(
    installation: Installation, topic: str
) -> None:
    copied = {"delay-id": f"other-0-7~9~{topic}", "delay-due": "1", "delay-source": "other-0-7", "delay-attempt": "9"}
    installation.requests.send(copied, b"k", b"fresh", topic=topic)
    installation.requests.flush()
    async with queue_of(installation, topic, max_attempts=2) as queue:
        [first] = await take(queue, 1)
        await first.nack(timedelta(0))
        [second] = await take(queue, 1)
        await second.ack()
    assert [(one.value, one.attempt) for one in (first, second)] == [(b"fresh", 1), (b"fresh", 2)]


@pytest.mark.core
async def test_policies_of_the_input_do_not_hold_for_retries_and_markers(
    installation: Installation, topic: str
) -> None:
    input_ = f"{installation.app_id}-hasty"
    async with queue_of(installation, topic, 2 * TIMEOUT, requests_topic=input_) as queue:
        put(installation, topic, b"acknowledged late", b"lost")
        first, lost = sorted(await take(queue, 2), key=lambda message: message.value or b"")
        await asyncio.sleep(1.5)  # longer than any policy of the input
        await first.ack()
        [again] = await take(queue, 1)
        await again.ack()
    assert (lost.value, again.value, again.attempt) == (b"lost", b"lost", 2)
    assert [record.value for record in read(installation.bootstrap, topic)] == [b"acknowledged late", b"lost", b"lost"]

    retry = {"delay-to": topic, "delay-retry": "exponential 2s 1 2s"}
    installation.requests.send(retry, b"k", b"retried", topic=input_)
    installation.requests.flush()
    *_, last = installation.wait_for(topic, 4)
    [sent_ms] = [one.timestamp_ms for one in read(installation.bootstrap, input_) if one.value == b"retried"]
    assert int(last.header("delay-due")) == sent_ms + 2_000


@pytest.mark.core
async def test_messages_without_key_and_value_are_messages(installation: Installation, topic: str) -> None:
    installation.requests.send([], None, None, topic=topic)
    installation.requests.flush()
    async with queue_of(installation, topic) as queue:
        [message] = await take(queue, 1)
        assert (message.key, message.value) == (None, None)
        [again] = await take(queue, 1)
        assert (again.key, again.value, again.attempt) == (None, None, 2)
        await again.ack()
        await settled(installation)


@pytest.mark.core
async def test_a_message_that_was_not_handed_out_is_returned_at_once_without_an_attempt(
    installation: Installation, topic: str
) -> None:
    put(installation, topic, *(b"%d" % number for number in range(20)))
    async with queue_of(installation, topic, timedelta(minutes=5)) as queue:
        [message] = await take(queue, 1)
        await until(lambda: queue.stats.received == 20)
        await message.ack()
    assert queue.stats.released == 19

    async with queue_of(installation, topic) as other:
        for given in await take(other, 19):
            assert given.attempt == 1
            await given.ack()
        await settled(installation)


@pytest.mark.core
async def test_an_abandoned_iteration_loses_no_message(installation: Installation, topic: str) -> None:
    async with queue_of(installation, topic, timedelta(minutes=5)) as queue:
        got, given_up, sent, idle = set[bytes | None](), 0, 0, threading.Event()

        def send() -> None:
            nonlocal sent
            for number in range(100):
                if number % 5 == 0:  # all has come, and one more wait was in vain
                    idle.clear()
                    assert idle.wait(60)
                sent += 1
                put(installation, topic, b"%d" % number)

        sending = asyncio.create_task(asyncio.to_thread(send))
        while len(got) < 100:
            try:
                [message] = await take(queue, 1, 0.003)
            except TimeoutError:
                given_up += 1
                assert given_up < 20_000
                if len(got) == sent:
                    idle.set()
            else:
                got.add(message.value)
                await message.ack()
        await sending
        assert given_up >= 20
        await settled(installation)


@pytest.mark.core
async def test_a_batch_has_the_available_messages(installation: Installation, topic: str) -> None:
    put(installation, topic, *(b"%d" % number for number in range(100)))
    got: list[Message] = []
    async with queue_of(installation, topic) as queue:
        batches: AsyncIterator[list[Message]] = queue.batches(30)
        async with asyncio.timeout(LIMIT_S):
            async for batch in batches:
                assert 1 <= len(batch) <= 30
                got += batch
                for message in batch:
                    await message.ack()
                if len(got) == 100:
                    break
        await settled(installation)
    assert len({message.value for message in got}) == 100


@pytest.mark.core
async def test_no_more_messages_are_out_than_is_allowed(installation: Installation, topic: str) -> None:
    put(installation, topic, *(b"%d" % number for number in range(30)))
    async with queue_of(installation, topic, timedelta(minutes=5), max_unacked=10) as queue:
        out = await take(queue, 10)
        with pytest.raises(TimeoutError):
            await take(queue, 1, 1)
        assert queue.unacked == 10
        await out[0].ack()
        out += await take(queue, 1)
        for message in out:
            await message.ack()
        for _ in range(19):
            [message] = await take(queue, 1)
            await message.ack()
        await settled(installation)


@pytest.mark.core
async def test_a_flood_of_errors_leaves_a_probe_at_a_time_until_one_succeeds(
    installation: Installation, topic: str
) -> None:
    breaker = Breaker(over=10, probe_after_s=0.5, longest_s=0.5)
    failing, met, done = True, 0, set[bytes | None]()
    put(installation, topic, *(b"%d" % number for number in range(200)))
    async with queue_of(installation, topic, breaker=breaker, max_attempts=None) as queue:

        async def work() -> None:
            nonlocal met
            async for message in queue:
                if failing:
                    met += 1
                    await message.nack(timedelta(seconds=0.2))
                else:
                    done.add(message.value)
                    await message.ack()

        working = asyncio.create_task(work())
        began = time.monotonic()
        await until(lambda: breaker.probes >= 10, what="ten probes")
        assert breaker.is_open
        assert met <= 10 + (time.monotonic() - began) / 0.5 + 2
        failing = False
        await until(lambda: len(done) == 200, 60)
        assert not breaker.is_open
        await settled(installation)
        working.cancel()
    assert queue.stats.released > 100


@pytest.mark.core
async def test_the_page_of_the_workers_shows_a_queue_whose_breaker_is_open(run: Run, bootstrap: str) -> None:
    with run("queue-page", before=lambda app_id: create_topic(bootstrap, f"{app_id}-queues", 1)) as installation:
        topic = installation.topic(partitions=2)
        put(installation, topic, *(b"%d" % number for number in range(20)))
        breaker = Breaker(over=10, probe_after_s=1, longest_s=1)

        def answer(path: str) -> str:
            with urllib.request.urlopen(f"{installation.worker.url}{path}", timeout=LIMIT_S) as said:  # noqa: S310 - our own
                return str(said.read().decode())

        def shown() -> list[dict[str, Any]]:
            try:
                return list(json.loads(answer("/api/v1/overview"))["queues"])
            except urllib.error.HTTPError:  # it has yet to read the others' reports
                return []

        async with queue_of(installation, topic, breaker=breaker) as queue:
            for _ in range(10):
                await (await anext(queue)).nack(timedelta(seconds=0.2))
            said = ("topic", "group", "consumers", "nacked", "breakers_open")
            wanted = (topic, "billing", 1, 10, 1)
            await until(lambda: [tuple(one[name] for name in said) for one in shown()] == [wanted], what="the breaker")
            failing = f"Consumers of the queue {topic} in the group billing are failing"
            await until(lambda: failing in answer("/"), what="a word on the page")
            await until(lambda: 'delay_queue_breakers_open{group="billing"' in answer("/metrics"), what="the metric")
            for _ in range(20):
                await (await anext(queue)).ack()
            await until(lambda: [one["breakers_open"] for one in shown()] == [0], what="its end")
        await until(lambda: shown() == [], what="no queue without a consumer")


@pytest.mark.core
async def test_no_offset_is_committed_whose_marker_kafka_has_not(
    installation: Installation, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(installation, topic, *(b"%d" % number for number in range(20)))
    async with queue_of(installation, topic) as queue:
        asked = asyncio.Event()

        async def refuse(_: object) -> None:
            asked.set()
            raise NotAuthorizedError(installation.requests.topic, "by the test")

        monkeypatch.setattr(queue._connection, "send_all", refuse)
        with pytest.raises(NotAuthorizedError):
            await take(queue, 1)
        assert asked.is_set()

    async with queue_of(installation, topic) as queue:
        asked.clear()

        async def never(_: object) -> None:
            asked.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(queue._connection, "send_all", never)
        async with asyncio.timeout(LIMIT_S):
            await asked.wait()

    async with queue_of(installation, topic, timedelta(minutes=5)) as queue:
        for message in await take(queue, 20):
            assert message.attempt == 1
            await message.ack()
        await settled(installation)


@pytest.mark.core
async def test_partitions_that_the_group_has_reassigned_are_read_again(installation: Installation, topic: str) -> None:
    put(installation, topic, *(b"%d" % number for number in range(20)))
    async with queue_of(installation, topic, timedelta(minutes=5)) as queue:
        assert queue._intake is not None
        commit, failed = queue._intake._consumer.commit, 0

        async def fail_twice(offsets: object) -> None:
            nonlocal failed
            if failed < 2:
                failed += 1
                raise CommitFailedError
            await commit(offsets)

        queue._intake._consumer.commit = fail_twice
        got = await take(queue, 20)
        assert {message.value for message in got} == {b"%d" % number for number in range(20)}
        assert failed == 2
        for message in got:
            await message.ack()
        await settled(installation)


@pytest.mark.core
async def test_a_queue_waits_for_a_worker_that_is_behind(installation: Installation, topic: str) -> None:
    taken = 0
    async with queue_of(installation, topic, timedelta(seconds=6)) as queue:

        async def work() -> None:
            nonlocal taken
            async for message in queue:
                taken += 1
                await message.ack()

        working = asyncio.create_task(work())
        put(installation, topic, b"first")
        await until(lambda: taken == 1)
        await settled(installation)
        os.kill(installation.worker.pid, signal.SIGSTOP)  # shorter than its session
        try:
            for number in range(20):
                await asyncio.sleep(0.2)
                put(installation, topic, b"%d" % number)
            await asyncio.sleep(0.3)
            stopped, lag = taken, queue.worker_lag
        finally:
            os.kill(installation.worker.pid, signal.SIGCONT)
        assert lag > timedelta(seconds=2)
        assert stopped <= 18
        await until(lambda: taken == 21)
        await settled(installation)
        assert queue.stats.redelivered == 0
        working.cancel()


@pytest.mark.core
async def test_several_tasks_share_a_queue(installation: Installation, topic: str) -> None:
    put(installation, topic, *(b"%d" % number for number in range(200)))
    got: list[list[bytes | None]] = [[], [], []]
    async with queue_of(installation, topic, timedelta(minutes=5)) as queue:

        async def work(mine: list[bytes | None]) -> None:
            async for message in queue:
                mine.append(message.value)
                await asyncio.sleep(0)
                await message.ack()

        tasks = [asyncio.create_task(work(mine)) for mine in got]
        await until(lambda: sum(map(len, got)) == 200)
        await settled(installation)
    await asyncio.gather(*tasks)
    assert all(got)
    assert len({value for mine in got for value in mine}) == 200


@pytest.mark.core
async def test_a_queue_on_a_topic_that_is_not_there_says_so(installation: Installation) -> None:
    with pytest.raises(InvalidDestinationError, match="The topic nowhere does not exist"):
        await queue_of(installation, "nowhere").start()


@pytest.mark.core
async def test_a_queue_that_is_not_open_says_so(installation: Installation) -> None:
    with pytest.raises(ClientClosedError, match="DelayQueue"):
        await anext(queue_of(installation, "nowhere"))


def test_a_worker_with_exactly_once_loses_no_message_either(run: Run, tmp_path: Path) -> None:
    with (
        run("queue-once", env=lambda _: {"DELAY_GUARANTEE": "exactly_once"}) as made,
        QueueRun(made.bootstrap, made.app_id, tmp_path, count=3_000) as queue,
    ):
        queue.produce()
        queue.await_more(1_000)
        queue.kill_one(random.Random(1))  # noqa: S311 - it chooses whom to kill
        queue.finish(180)
        back = queue.redeliveries()
    assert len(queue.processed) == 3_000
    assert len(back) > 100
    assert min(map(late_ms, back)) >= 0


def test_consumers_that_drop_one_in_ten_and_are_killed_lose_no_message(
    installation: Installation, tmp_path: Path
) -> None:
    chance = random.Random(1)  # noqa: S311 - it chooses whom to kill
    with QueueRun(installation.bootstrap, installation.app_id, tmp_path, count=10_000) as run:
        run.produce()
        for _ in range(4):
            run.await_more(500)
            run.kill_one(chance)
        run.finish(180)
        back = run.redeliveries()

    late = [late_ms(record) for record in back]
    assert run.kills == 4
    assert len(run.processed) == 10_000
    assert len(back) > 500
    assert min(late) >= 0
    assert percentile(late, 0.99) <= LATE_MS
