"""A running Punctual on a simulated clock: the worker's own code decides, and no time passes."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest

from app.dev.testing import Delayed, Options, Post
from app.dev.testing.installation import Inside, NoInput
from punctual import DelayClient, SyncDelayClient, exponential

START = datetime(2027, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def delayed_options() -> Options:
    return Options(start=START, topics={"orders": 3, "elsewhere": 1})


def in_(**span: float) -> dict[str, str]:
    """Return the headers of a message for `orders` that is due then."""
    return {"delay-to": "orders", "delay-after": f"{round(timedelta(**span).total_seconds() * 1000)}"}


def test_a_message_is_delivered_when_it_is_due_and_no_millisecond_before(delayed: Delayed) -> None:
    delayed.produce(in_(hours=2), "hello", key="k")

    assert delayed.advance(hours=1, minutes=59, seconds=59, milliseconds=999) == []
    [record] = delayed.advance(milliseconds=1)
    assert (record.topic, record.key, record.value) == ("orders", b"k", b"hello")
    assert record.at == delayed.now == START + timedelta(hours=2)
    assert delayed.delivered("orders") == [record]


def test_each_message_is_delivered_at_its_own_time_however_far_time_goes(delayed: Delayed) -> None:
    for number in (3, 1, 2):
        delayed.produce(in_(days=number * 100), str(number))

    assert [one.due for one in delayed.pending()] == [START + timedelta(days=n * 100) for n in (1, 2, 3)]
    found = [(record.value, record.at - START) for record in delayed.advance(days=365)]
    assert found == [(b"1", timedelta(days=100)), (b"2", timedelta(days=200)), (b"3", timedelta(days=300))]


def test_a_message_that_is_due_at_once_is_delivered_without_advancing_the_clock(delayed: Delayed) -> None:
    delayed.produce({"delay-to": "orders", "delay-at": "2020-01-01T00:00:00Z"}, "late")

    assert [record.value for record in delayed.delivered()] == [b"late"]
    assert delayed.now == START


def test_the_clock_shows_the_present_at_first() -> None:
    running = Delayed(Options())
    try:
        assert abs(running.now - datetime.now(UTC)) < timedelta(minutes=1)
    finally:
        running.close()


async def test_the_client_of_a_program_needs_no_broker(delayed: Delayed) -> None:
    async with DelayClient("kafka.invalid:9092") as client:
        first = await client.delay("orders", {"order": 42}, after=timedelta(minutes=15))
        second = await client.delay("orders", "other", at=delayed.now + timedelta(minutes=20), id="mine")
        await client.cancel(first)
        await client.reschedule(second, after=timedelta(minutes=30))

        assert [one.id for one in delayed.pending()] == ["mine"]
        assert await delayed.advance(minutes=29) == []
        [record] = await delayed.advance(minutes=1)
        assert record.value == b"other"
        assert record.header("delay-id") == "mine"

        await client.delay("orders", {"order": 43}, after=timedelta(days=1), id="later")
        await client.deliver_now("later")
        assert delayed.delivered()[-1].json() == {"order": 43}
    assert [event["event"] for event in delayed.events() if event["id"] == first] == ["accepted", "cancelled"]


async def test_awaiting_lets_other_tasks_run(delayed: Delayed) -> None:
    async def wait_for_its_turn() -> None:
        """Come to an end at once."""

    task = asyncio.create_task(wait_for_its_turn())
    await delayed.advance(hours=1)

    assert task.done()


def test_the_client_without_an_event_loop_works_too(delayed: Delayed) -> None:
    with SyncDelayClient("kafka.invalid:9092") as client:
        client.delay("orders", "x", after=timedelta(seconds=5))
        assert [record.value for record in delayed.advance(seconds=5)] == [b"x"]


async def test_a_record_comes_back_after_each_backoff_and_ends_as_a_dead_letter(delayed: Delayed) -> None:
    backoff = exponential("1m", 10, "1d", jitter=False)
    async with DelayClient("kafka.invalid:9092") as client:
        await client.delay("orders", "poison", after=timedelta(0), key="k")
        attempts: list[tuple[str | None, timedelta]] = []
        while len(delayed.delivered()) > len(attempts):
            record = delayed.delivered()[-1]
            attempts.append((record.header("delay-attempt"), record.at - START))
            await client.retry(record, backoff=backoff, max_attempts=3, error="no stock")
            await delayed.advance(hours=1)

    assert attempts == [
        (None, timedelta(0)),
        ("2", timedelta(minutes=1)),
        ("3", timedelta(hours=1, minutes=10)),
    ]
    [letter] = delayed.dead_letters()
    assert letter.header("delay-reason") == "attempts-exhausted"


def test_an_invalid_request_becomes_a_dead_letter(delayed: Delayed) -> None:
    delayed.produce({"delay-to": "nowhere", "delay-after": "PT1S"}, "x")
    delayed.produce({"delay-to": "orders", "delay-after": "soon"}, "x")

    assert [one.header("delay-reason") for one in delayed.dead_letters()] == ["unknown-topic", "malformed"]
    assert delayed.advance(days=1) == []


def test_a_series_recurs_as_the_calendar_says_until_it_is_paused(delayed: Delayed) -> None:
    headers = {"delay-to": "orders", "delay-cron": "0 9 * * *", "delay-zone": "Europe/Berlin", "delay-id": "daily"}
    delayed.produce(headers, "good morning")
    found = delayed.advance(days=60)

    assert len(found) == 60
    assert {record.at.hour for record in found} == {8, 7}  # the clocks go forward on 28 March
    assert found[-1].at == datetime(2027, 4, 1, 7, tzinfo=UTC)
    delayed.produce({"delay-op": "pause", "delay-id": "daily"})
    assert delayed.advance(days=30) == []
    assert [one.due for one in delayed.pending()] == [None]
    delayed.produce({"delay-op": "resume", "delay-id": "daily"})
    assert len(delayed.advance(days=1)) == 1


async def test_a_destination_is_held_back_until_its_pause_is_over(delayed: Delayed) -> None:
    delayed.produce(in_(minutes=1), "held")
    delayed.produce({**in_(minutes=1), "delay-to": "elsewhere"}, "not held")
    async with DelayClient("kafka.invalid:9092") as client:
        await client.pause("orders", reason="maintenance", until=START + timedelta(days=40))

        assert [record.value for record in await delayed.advance(days=39)] == [b"not held"]
        [record] = await delayed.advance(days=2)
        assert record.at == START + timedelta(days=40)

        await client.pause("orders", reason="again")
        delayed.produce(in_(minutes=1), "held again")
        assert await delayed.advance(days=400) == []
        await client.resume("orders")
        assert [record.value for record in delayed.delivered()][-1] == b"held again"


async def test_a_destination_gets_no_more_than_its_rate(delayed: Delayed) -> None:
    for number in range(5):
        delayed.produce(in_(minutes=1), str(number), key="k")
    async with DelayClient("kafka.invalid:9092") as client:
        await client.limit("orders", "1/m")
        found = await delayed.advance(minutes=10)

    assert [record.value for record in found] == [b"0", b"1", b"2", b"3", b"4"]
    apart = [later.at - earlier.at for earlier, later in itertools.pairwise(found)]
    assert all(timedelta(seconds=59) < one < timedelta(seconds=61) for one in apart)


def test_writing_to_a_topic_without_a_reader_is_an_error(delayed: Delayed) -> None:
    with pytest.raises(NoInput, match="no requests from orders partition 0"):
        delayed.produce(in_(hours=1), topic="orders")
    with pytest.raises(NoInput, match="no requests from delay-requests partition 1"):
        delayed.produce(in_(hours=1), partition=1)


class TestTopicsThatChange:
    @pytest.fixture
    def topics(self) -> dict[str, int]:
        return {"orders": 1}

    @pytest.fixture
    def delayed_options(self, topics: dict[str, int]) -> Options:
        return Options(topics=topics, start=START)

    def test_a_topic_that_is_gone_by_then_makes_a_dead_letter(self, delayed: Delayed, topics: dict[str, int]) -> None:
        delayed.produce(in_(hours=1), "x")
        del topics["orders"]

        assert delayed.advance(hours=2) == []
        assert [one.header("delay-reason") for one in delayed.dead_letters()] == ["unknown-topic"]


class TestUrls:
    @pytest.fixture
    def statuses(self) -> list[int]:
        return [200]

    @pytest.fixture
    def delayed_options(self, statuses: list[int]) -> Options:
        def respond(_: Post) -> int:
            return statuses.pop(0) if len(statuses) > 1 else statuses[0]

        return Options(settings={"DELAY_HTTP_DESTINATIONS": "https://*"}, start=START, respond=respond)

    def test_a_message_is_posted_when_it_is_due(self, delayed: Delayed) -> None:
        delayed.produce({**in_(hours=1), "delay-to": "https://hooks.example.com/x"}, "hello")
        delayed.advance(hours=2)

        [post] = delayed.posts()
        assert (post.url, post.body, post.status) == ("https://hooks.example.com/x", b"hello", 200)
        assert post.at == START + timedelta(hours=1)

    def test_a_post_that_fails_is_tried_again_later_and_later(self, delayed: Delayed, statuses: list[int]) -> None:
        statuses[:] = [500, 503, 200]
        delayed.produce({**in_(hours=1), "delay-to": "https://hooks.example.com/x"}, "hello")
        delayed.advance(days=1)

        assert [post.status for post in delayed.posts()] == [500, 503, 200]
        first, second, third = (post.at for post in delayed.posts())
        assert first < second < third < START + timedelta(hours=2)
        assert delayed.pending() == []

    def test_a_host_that_never_answers_costs_a_dead_letter_and_no_time(
        self, delayed: Delayed, statuses: list[int]
    ) -> None:
        statuses[:] = [503]
        delayed.produce({**in_(hours=1), "delay-to": "https://hooks.example.com/x"}, "hello")
        delayed.advance(days=30)

        [letter] = delayed.dead_letters()
        assert letter.header("delay-reason") == "undeliverable"


class TestPartitions:
    @pytest.fixture
    def delayed_options(self) -> Options:
        return Options(settings={"DELAY_PARTITIONS": "4"}, start=START)

    def test_a_request_goes_home_from_whatever_partition(self, delayed: Delayed) -> None:
        for partition in range(4):
            delayed.produce({**in_(hours=1), "delay-id": "one"}, str(partition), partition=partition)

        assert [record.value for record in delayed.advance(hours=1)] == [b"3"]

    async def test_the_client_finds_as_many_partitions(self, delayed: Delayed) -> None:
        async with DelayClient("kafka.invalid:9092", partitions=4) as client:
            await client.delay("orders", "x", after=timedelta(hours=1))
            assert len(await delayed.advance(hours=1)) == 1


def test_time_goes_forward_only(delayed: Delayed) -> None:
    with pytest.raises(ValueError, match="Time only moves forward"):
        delayed.advance(hours=-1)
    with pytest.raises(ValueError, match="has no time zone"):
        delayed.advance_to(datetime(2027, 2, 1))  # noqa: DTZ001 - naive times are refused


def test_a_respond_function_that_calls_punctual_gets_an_error_with_the_alternative() -> None:
    def respond(_: Post) -> int:
        with pytest.raises(Inside, match=r"react to it after advance\(\) has returned"):
            running.advance(hours=1)
        return 204

    running = Delayed(Options(settings={"DELAY_HTTP_DESTINATIONS": "https://*"}, respond=respond))
    try:
        running.produce({"delay-to": "https://hooks.example.com/x", "delay-after": "PT1S"})
        running.advance(seconds=1)
        assert [post.status for post in running.posts()] == [204]
    finally:
        running.close()


def test_what_respond_raises_fails_the_test() -> None:
    def respond(post: Post) -> int:
        assert post.body == b"other"
        return 200

    running = Delayed(Options(settings={"DELAY_HTTP_DESTINATIONS": "https://*"}, respond=respond))
    try:
        running.produce({"delay-to": "https://hooks.example.com/x", "delay-after": "PT1S"}, "x")
        with pytest.raises(AssertionError):
            running.advance(seconds=1)
    finally:
        running.close()
