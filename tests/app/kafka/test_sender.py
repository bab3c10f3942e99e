"""The sender: each partition a lane of its own, in order, numbered, failing alone."""

import asyncio
import gc
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Any, cast

import aiokafka.errors as kafka
import pytest

from app.kafka import Ack, Batch, Cluster, Sender
from app.kafka.errors import (
    BatchRejected,
    GaveUp,
    InvalidRecord,
    NotAuthorised,
    PartitionGone,
    Recalled,
    SendError,
    TooLarge,
    TopicUnknown,
)
from tests.app.fake_kafka import LEADER_MOVED, TOO_LARGE, ScriptedCluster, batch
from tests.harness.waiting import LIMIT_S

Started = Callable[..., Awaitable[Sender]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back off for milliseconds only."""
    monkeypatch.setattr("app.kafka.produce.partition_queue._BACKOFF_S", 0.0005)
    monkeypatch.setattr("app.kafka.produce.partition_queue._BACKOFF_MAX_S", 0.005)
    monkeypatch.setattr("app.kafka.produce.partition_queue._ASK_EVERY_S", 0.0005)


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster(orders=4, payments=1)


async def started(cluster: ScriptedCluster, *, recalls: bool = False) -> Sender:
    sender = Sender(cast("Cluster", cluster), recalls=recalls)
    await sender.start()
    return sender


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - it comes about in code that knows no events of tests
            await asyncio.sleep(0.001)


async def test_batches_of_a_partition_are_stored_in_order_one_at_a_time(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    acks = await asyncio.gather(*(sender.submit("orders", 1, batch(b"%d" % n, b"+")) for n in range(5)))

    assert acks == [Ack(2 * n, 1_000 + 2 * n) for n in range(5)]
    assert cluster.stored["orders", 1] == [b"0", b"+", b"1", b"+", b"2", b"+", b"3", b"+", b"4", b"+"]
    assert [(sent.producer, sent.sequence) for sent in cluster.attempts] == [(100, 2 * n) for n in range(5)]
    await sender.stop()


@pytest.mark.parametrize(("recalls", "apart", "requests"), [(True, 0, 1), (False, 1, 1), (True, 1, 4)])
async def test_batches_submitted_together_travel_together_and_only_deliveries_are_sent_at_once(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, *, recalls: bool, apart: int, requests: int
) -> None:
    monkeypatch.setattr("app.kafka.produce.sender._LINGER_S", 0.1)
    sender = await started(cluster, recalls=recalls)
    sends = 0
    send = cluster.send

    async def count(*args: object, **options: object) -> object:
        nonlocal sends
        sends += 1
        return await send(*args, **options)  # type: ignore[arg-type]

    cluster.send = count  # type: ignore[method-assign, assignment]
    acks = []
    for number in range(4):
        acks.append(sender.submit("orders", number, batch(b"x")))
        for _ in range(2 * apart):
            await asyncio.sleep(0)
    await asyncio.gather(*acks)

    assert sends == requests
    await sender.stop()


async def test_what_still_waits_for_company_when_it_is_stopped_is_not_sent(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    sender.submit("orders", 0, batch(b"x"))
    await sender.stop()
    await asyncio.sleep(0.01)

    assert cluster.attempts == []


async def test_a_lane_that_backs_off_when_it_is_stopped_is_not_tried_again(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    cluster.script["orders", 0].extend([LEADER_MOVED] * 1_000)
    sender.submit("orders", 0, batch(b"x"))
    await until(lambda: len(cluster.attempts) > 2)
    await sender.stop()
    tried = len(cluster.attempts)
    await asyncio.sleep(0.02)

    assert len(cluster.attempts) == tried


@pytest.mark.parametrize("recalls", [False, True])
async def test_an_answered_request_is_freed_without_the_garbage_collector(
    cluster: ScriptedCluster, *, recalls: bool
) -> None:
    sender = await started(cluster, recalls=recalls)
    await sender.submit("orders", 0, batch(b"x"))
    gc.collect()
    gc.disable()
    others = [found for found in gc.get_objects() if isinstance(found, Batch)]  # of tests before, in the same process
    try:
        await sender.submit("orders", 1, batch(b"y"))
        await asyncio.sleep(0)
        left = [found for found in gc.get_objects() if isinstance(found, Batch)]
        assert [found for found in left if all(found is not one for one in others)] == []
    finally:
        gc.enable()
    await sender.stop()


async def test_a_retriable_error_on_one_lane_holds_up_no_other(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    cluster.script["orders", 0].extend([LEADER_MOVED] * 20)
    stuck = sender.submit("orders", 0, batch(b"stuck"))
    for number in range(3):
        await sender.submit("orders", 1, batch(b"%d" % number))

    assert not stuck.done()
    assert sender.blocked("orders", 0)
    assert sender.trouble("orders", 0) == "NotLeaderForPartitionError"
    assert not sender.blocked("orders", 1)
    await stuck
    assert not sender.blocked("orders", 0)
    assert not sender.trouble("orders", 0)
    assert len(cluster.attempts) == 24


async def test_a_batch_is_tried_again_under_the_same_number_before_those_behind_it(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    cluster.script["orders", 0].extend([LEADER_MOVED, kafka.KafkaConnectionError("away"), LEADER_MOVED])
    await asyncio.gather(sender.submit("orders", 0, batch(b"a", b"b")), sender.submit("orders", 0, batch(b"c")))

    assert [(sent.values, sent.producer, sent.sequence) for sent in cluster.attempts] == [
        *[([b"a", b"b"], 100, 0)] * 4,
        ([b"c"], 100, 2),
    ]


async def test_a_batch_that_the_broker_has_already_is_stored(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    cluster.script["orders", 0].append(kafka.DuplicateSequenceNumber.errno)

    assert (await sender.submit("orders", 0, batch(b"a"))).offset == -1
    await sender.submit("orders", 0, batch(b"b"))
    assert [sent.sequence for sent in cluster.attempts] == [0, 1]


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        (TOO_LARGE, TooLarge),
        (kafka.RecordListTooLargeError.errno, TooLarge),
        (kafka.TopicAuthorizationFailedError.errno, NotAuthorised),
        (kafka.InvalidTopicError.errno, BatchRejected),
        (kafka.InvalidTimestampError.errno, BatchRejected),
        (87, InvalidRecord),
    ],
)
async def test_after_a_failure_for_good_its_number_is_used_for_the_next_batch(
    cluster: ScriptedCluster, code: int, failure: type[SendError]
) -> None:
    sender = await started(cluster)
    cluster.script["orders", 0].append(code)
    bad, good = sender.submit("orders", 0, batch(b"bad", b"bad")), sender.submit("orders", 0, batch(b"good"))

    with pytest.raises(failure):
        await bad
    await good
    assert [(sent.values, sent.sequence) for sent in cluster.attempts] == [([b"bad", b"bad"], 0), ([b"good"], 0)]
    assert not sender.blocked("orders", 0)


async def test_a_number_that_may_have_been_used_is_not_used_again(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    timed_out, refused = kafka.RequestTimedOutError.errno, kafka.TopicAuthorizationFailedError.errno
    cluster.script["orders", 0] += [timed_out, refused]  # the first may be stored all the same
    bad, good = sender.submit("orders", 0, batch(b"bad")), sender.submit("orders", 0, batch(b"good"))

    with pytest.raises(NotAuthorised):
        await bad
    await good
    last = cluster.attempts[-1]
    assert (last.values, last.sequence) == ([b"good"], 0)
    assert last.producer != cluster.attempts[0].producer  # otherwise a broker would mistake it for the stored batch
    await sender.stop()


async def test_connections_that_were_left_behind_are_used_again_after_some_time(cluster: ScriptedCluster) -> None:
    sender = await started(cluster, recalls=True)
    for _ in range(20):
        sender._requests._part(0, ("healthy", sender._requests._healthy), [])
        await sender.submit("orders", 0, batch(b"x"))

    assert len({sent.group for sent in cluster.attempts}) == 1
    await sender.stop()


class _InOrder(ScriptedCluster):
    """A broker that answers the requests of one connection in order."""

    def __init__(self, **partitions: int) -> None:
        super().__init__(**partitions)
        self.roads = defaultdict[Hashable, asyncio.Lock](asyncio.Lock)

    async def send(self, node: int, request: Any, *, group: Hashable) -> Any:
        async with self.roads[group]:
            return await super().send(node, request, group=group)


async def test_no_connection_is_used_on_which_a_slow_request_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.kafka.produce.requests._SLOW_S", 0.01)
    cluster = _InOrder(slow=20, fine=1)
    sender = await started(cluster, recalls=True)
    for number in range(20):
        cluster.script["slow", number].append(asyncio.Event())
        sender.submit("slow", number, batch(b"x"))
        await asyncio.sleep(0.02)

    async with asyncio.timeout(LIMIT_S):
        await sender.submit("fine", 0, batch(b"y"))
    await sender.stop()


async def test_a_task_that_fails_ends_the_process(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[BaseException] = []
    monkeypatch.setattr("app.kafka.produce.sender.end_process", ended.append)
    sender = await started(cluster)
    cluster.script["orders", 0].append(RuntimeError("unforeseen"))
    sender.submit("orders", 0, batch(b"x"))

    await until(lambda: [str(error) for error in ended] == ["unforeseen"])  # else its lanes would wait for good
    await sender.stop()


async def test_a_batch_submitted_in_a_failures_callback_goes_before_waiting_ones(
    cluster: ScriptedCluster,
) -> None:
    sender = await started(cluster)
    cluster.script["orders", 0].append(TOO_LARGE)
    others = [sender.submit("orders", 1, batch(b"x")) for _ in range(2)]  # the next request is on its way already
    bad = sender.submit("orders", 0, batch(b"1", b"2"))

    def halve(_: object) -> None:
        sender.submit("orders", 0, batch(b"2"), first=True)
        sender.submit("orders", 0, batch(b"1"), first=True)

    bad.add_done_callback(halve)
    await asyncio.gather(*others, sender.submit("orders", 0, batch(b"3")))

    assert cluster.stored["orders", 0] == [b"1", b"2", b"3"]
    assert isinstance(bad.exception(), TooLarge)


@pytest.mark.parametrize("error", [kafka.UnknownProducerId, kafka.OutOfOrderSequenceNumber, kafka.InvalidProducerEpoch])
async def test_a_lane_whose_sequence_numbers_the_broker_has_lost_starts_again_with_others(
    cluster: ScriptedCluster, error: type[kafka.BrokerResponseError]
) -> None:
    sender = await started(cluster)
    await sender.submit("orders", 0, batch(b"a"))
    cluster.script["orders", 0].append(error.errno)
    await asyncio.gather(sender.submit("orders", 0, batch(b"b")), sender.submit("orders", 1, batch(b"x")))
    await sender.submit("orders", 0, batch(b"c"))

    queue = [(sent.values[0], sent.producer, sent.sequence) for sent in cluster.attempts if sent.partition == 0]
    assert queue == [(b"a", 100, 0), (b"b", 100, 1), (b"b", 200, 0), (b"c", 200, 1)]
    assert [sent.producer for sent in cluster.attempts if sent.partition == 1] == [100]


# topics that are not there ------------------------------------------------------------------------------------------
async def test_a_topic_that_stays_away_is_unknown(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)

    with pytest.raises(TopicUnknown, match=r"topic nowhere partition 0 does not exist\. Create it"):
        await sender.submit("nowhere", 0, batch(b"x"))
    with pytest.raises(TopicUnknown, match="topic payments partition 1 does not exist"):
        await sender.submit("payments", 1, batch(b"x"))


async def test_a_partition_that_a_topic_no_longer_has_is_an_error_at_once(cluster: ScriptedCluster) -> None:
    sender = await started(cluster, recalls=True)
    await sender.submit("orders", 3, batch(b"before"))
    cluster.script["orders", 3].append(kafka.UnknownTopicOrPartitionError.errno)
    cluster.topics["orders"] = 2

    with pytest.raises(PartitionGone):
        await sender.submit("orders", 3, batch(b"x"))
    assert len(cluster.attempts) <= 2
    cluster.topics["orders"] = 4
    await sender.submit("orders", 3, batch(b"after"))
    assert cluster.stored["orders", 3] == [b"before", b"after"]
    await sender.stop()


async def test_unused_partitions_are_forgotten_and_start_again_under_another_producer(
    cluster: ScriptedCluster,
) -> None:
    sender = await started(cluster)
    for number in range(4):
        await sender.submit("orders", number, batch(b"first"))
    sender.forget_idle()
    await sender.submit("orders", 0, batch(b"second"))
    cluster.hidden.add("payments")
    waits = sender.submit("payments", 0, batch(b"waits"))
    sender.forget_idle()
    await until(lambda: len(sender._queues) == 2)
    cluster.hidden.clear()
    await waits
    for number in range(2):
        await sender.submit("orders", number, batch(b"third"))

    sent = {(at.topic, at.partition, *at.values): (at.producer, at.sequence) for at in cluster.attempts}
    assert sent["orders", 0, b"third"] == (100, 2)
    assert sent["orders", 1, b"third"] == (200, 0)
    await sender.stop()


async def test_without_an_available_producer_id_no_partition_is_forgotten(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    await sender.submit("orders", 0, batch(b"first"))
    sender.forget_idle()
    cluster.away = kafka.KafkaConnectionError("away")
    sender.forget_idle()
    await until(lambda: not sender._tasks)
    cluster.away = None
    await sender.submit("orders", 0, batch(b"second"))

    assert [(sent.producer, sent.sequence) for sent in cluster.attempts] == [(100, 0), (100, 1)]
    await sender.stop()


async def test_a_topic_that_comes_in_time_is_found(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    acked = sender.submit("new", 0, batch(b"x"))
    await until(lambda: sender.blocked("new", 0))
    cluster.topics["new"] = 1

    assert (await acked).offset == 0


async def test_a_partition_without_a_leader_is_waited_for(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    cluster.hidden.add("orders")
    acked = sender.submit("orders", 0, batch(b"x"))
    await until(lambda: sender.blocked_s("orders", 0) > 0.02)
    cluster.hidden.clear()

    assert (await acked).offset == 0


async def test_a_cluster_that_is_away_is_waited_for(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    cluster.away = kafka.KafkaConnectionError("away")
    acked = sender.submit("orders", 0, batch(b"x"))
    await until(lambda: sender.blocked_s("orders", 0) > 0.02)
    assert not acked.done()
    cluster.away = None

    assert (await acked).offset == 0


# quarantine ---------------------------------------------------------------------------------------------------------
async def test_a_lane_that_fails_moves_to_a_connection_of_its_own_kind(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    cluster.script["orders", 0].append(LEADER_MOVED)
    await sender.submit("orders", 0, batch(b"x"))
    await sender.submit("orders", 0, batch(b"y"))
    first, second, third = (sent.group for sent in cluster.attempts)

    assert first == third != second


async def test_batches_behind_a_failing_batch_are_recalled(cluster: ScriptedCluster) -> None:
    sender = await started(cluster, recalls=True)
    cluster.script["orders", 0].extend([LEADER_MOVED] * 3)
    futures = [sender.submit("orders", 0, batch(b"%d" % number)) for number in range(3)]
    results = await asyncio.gather(*futures, return_exceptions=True)

    assert isinstance(results[0], Ack)
    assert [type(result) for result in results[1:]] == [Recalled, Recalled]
    await sender.submit("orders", 0, batch(b"1"))
    assert cluster.stored["orders", 0] == [b"0", b"1"]
    assert [sent.sequence for sent in cluster.attempts] == [0, 0, 0, 0, 1]


async def test_without_recalls_everything_waits(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    cluster.script["orders", 0].extend([LEADER_MOVED] * 3)
    await asyncio.gather(*(sender.submit("orders", 0, batch(b"%d" % number)) for number in range(3)))

    assert cluster.stored["orders", 0] == [b"0", b"1", b"2"]


async def test_a_partition_whose_answer_is_slow_does_not_hold_up_those_of_its_request(
    cluster: ScriptedCluster,
) -> None:
    sender = await started(cluster, recalls=True)
    answers = asyncio.Event()
    cluster.script["orders", 1].extend([answers, answers])
    slow, fast = sender.submit("orders", 1, batch(b"slow")), sender.submit("orders", 0, batch(b"fast"))
    more = sender.submit("orders", 0, batch(b"more"))
    async with asyncio.timeout(LIMIT_S):
        await asyncio.wait([fast])
    assert not slow.done()
    answers.set()

    await slow
    assert isinstance(more.exception() if more.done() else Recalled("orders", 0), Recalled)


async def test_of_two_slow_requests_the_second_is_parted_later(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.kafka.produce.requests._PART_EVERY_S", 0.4)
    sender = await started(cluster, recalls=True)
    answers = asyncio.Event()
    fast = []
    for number in (0, 2):
        cluster.script["orders", number + 1].extend([answers, answers])
        fast.append(sender.submit("orders", number, batch(b"fast")))
        sender.submit("orders", number + 1, batch(b"slow"))
        await asyncio.sleep(0.01)

    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*fast)
    answers.set()


async def test_a_partition_that_the_first_answer_has_served_is_not_blocked_by_a_slow_second_one(
    cluster: ScriptedCluster,
) -> None:
    sender = await started(cluster, recalls=True)
    first, second = asyncio.Event(), asyncio.Event()
    cluster.script["orders", 0].extend([first, second])
    sent = [sender.submit("orders", number, batch(b"one")) for number in (0, 1)]
    async with asyncio.timeout(LIMIT_S):
        while len(cluster.attempts) < 3:  # each was sent again on its own  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        first.set()
        await asyncio.gather(*sent)
        await asyncio.sleep(0.4)  # longer than a sender waits before it takes an answer for slow
        second.set()

    assert not any(sender.blocked("orders", number) for number in (0, 1))


# giving up ----------------------------------------------------------------------------------------------------------
async def taken_back(
    cluster: ScriptedCluster, sender: Sender, take_back: Callable[[str, int], None]
) -> "asyncio.Future[Ack]":
    """Recall a batch of unknown state: no answer says whether it is stored."""
    cluster.script["orders", 0].extend([kafka.RequestTimedOutError.errno] * 1_000)
    sent = sender.submit("orders", 0, batch(b"a"))
    await until(lambda: sender.blocked("orders", 0))
    while not sent.done():
        take_back("orders", 0)
        await asyncio.sleep(0)
    cluster.script.clear()
    return sent


async def test_a_batch_that_is_given_up_comes_back_and_the_next_goes_under_other_numbers(
    cluster: ScriptedCluster,
) -> None:
    sender = await started(cluster, recalls=True)
    given_up = await taken_back(cluster, sender, sender.give_up)

    assert isinstance(given_up.exception(), GaveUp)
    await sender.submit("orders", 0, batch(b"b"))
    assert {sent.producer for sent in cluster.attempts if sent.values == [b"a"]} == {100}
    assert (cluster.attempts[-1].producer, cluster.attempts[-1].sequence) == (200, 0)


async def test_while_no_producer_id_is_available_no_batch_is_sent_under_the_old_one(cluster: ScriptedCluster) -> None:
    sender = await started(cluster, recalls=True)
    await sender.submit("orders", 0, batch(b"0"))
    cluster.away = kafka.KafkaConnectionError("away")
    given_up = sender.submit("orders", 0, batch(b"a"))
    await until(lambda: sender.blocked("orders", 0))
    while not given_up.done():
        sender.give_up("orders", 0)
        await asyncio.sleep(0)
    assert isinstance(given_up.exception(), GaveUp)
    following = sender.submit("orders", 0, batch(b"b"))
    await until(lambda: sender.blocked("orders", 0))
    cluster.away = None
    await following

    assert [(sent.values[0], sent.producer, sent.sequence) for sent in cluster.attempts] == [
        (b"0", 100, 0),
        (b"b", 200, 0),
    ]


async def test_more_had_better_wait_while_another_number_is_sought(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no broker answers that takes long, and rows on their way to a partition that is free hold others up."""
    sender = await started(cluster, recalls=True)
    cluster.script["orders", 0].extend([LEADER_MOVED] * 1_000)
    given_up, found = sender.submit("orders", 0, batch(b"a")), asyncio.Event()
    ask = cluster.ask

    async def ask_for_long(request: Any) -> Any:
        await found.wait()
        return await ask(request)

    await until(lambda: sender.blocked("orders", 0))
    monkeypatch.setattr(cluster, "ask", ask_for_long)
    while not given_up.done():
        sender.give_up("orders", 0)
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    assert sender.blocked("orders", 0)
    found.set()
    await until(lambda: not sender.blocked("orders", 0))


async def test_a_batch_without_an_owner_is_not_retried(cluster: ScriptedCluster) -> None:
    sender = await started(cluster, recalls=True)
    let_go = await taken_back(cluster, sender, sender.let_go)
    assert isinstance(let_go.exception(), Recalled)
    await until(lambda: not sender.blocked("orders", 0))
    await sender.submit("orders", 0, batch(b"b"))

    assert cluster.stored["orders", 0] == [b"b"]
    assert (cluster.attempts[-1].producer, cluster.attempts[-1].sequence) == (200, 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_deliveries_and_records_for_internal_topics_share_no_connection(
    cluster: ScriptedCluster, *, fails: bool
) -> None:
    for recalls in (False, True):
        if fails:
            cluster.script["orders", 0].extend([LEADER_MOVED] * 2)
        await (await started(cluster, recalls=recalls)).submit("orders", 0, batch(b"x"))
    groups = [sent.group for sent in cluster.attempts]
    half = len(groups) // 2

    assert set(groups[:half]).isdisjoint(groups[half:])


async def test_batches_after_an_abandoned_one_are_abandoned_at_their_first_failure(
    cluster: ScriptedCluster,
) -> None:
    sender = await started(cluster, recalls=True)
    cluster.script["orders", 0].extend([LEADER_MOVED] * 1_000)
    first = sender.submit("orders", 0, batch(b"a"))
    await until(lambda: sender.blocked_s("orders", 0) > 0.03)
    while not first.done():
        sender.give_up("orders", 0)
        await asyncio.sleep(0)
    second = sender.submit("orders", 0, batch(b"b"))
    await until(lambda: sender.blocked("orders", 0))

    assert isinstance(first.exception(), GaveUp)
    assert sender.blocked_s("orders", 0) > 0.03
    assert not second.done()
    await sender.stop()


async def test_giving_up_a_healthy_partition_has_no_effect(cluster: ScriptedCluster) -> None:
    sender = await started(cluster)
    sender.give_up("orders", 0)
    await sender.submit("orders", 0, batch(b"a"))
    sender.give_up("orders", 0)
    await sender.submit("orders", 0, batch(b"b"))

    assert cluster.stored["orders", 0] == [b"a", b"b"]
    assert sender.blocked_s("orders", 0) == 0


@pytest.mark.parametrize("answer", [LEADER_MOVED, kafka.RequestTimedOutError(), kafka.KafkaConnectionError()])
async def test_after_any_failure_the_leader_is_looked_up(
    answer: int | Exception, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, refresh = list[set[str]](), cluster.refresh

    async def refreshed(topics: Collection[str]) -> set[str]:
        looked.append(set(topics))
        return await refresh(topics)

    monkeypatch.setattr(cluster, "refresh", refreshed)
    sender = await started(cluster)
    cluster.script["orders", 0].append(answer)
    await sender.submit("orders", 0, batch(b"a"))
    await until(lambda: {"orders"} in looked)
