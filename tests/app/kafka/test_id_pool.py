"""A destination that does not accept the end of a transaction blocks that transaction's id only."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import aiokafka.errors as kafka
import pytest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest

from app.kafka.metadata.describe_transactions import Describe, DescribeProducers
from app.kafka.metadata.offsets import TopicPartition
from app.kafka.transactions.coordinator import Fenced
from app.kafka.transactions.hanging import HangingTransactions
from app.kafka.transactions.id_pool import TransactionalIdPool
from app.kafka.transactions.next_epoch import NextEpoch
from app.kafka.transactions.transaction import Transactions, Untaken
from tests.app.fake_kafka import batch
from tests.app.kafka.test_transaction import AGAIN, Coordinated
from tests.harness.simulated_time import in_simulated_time
from tests.harness.waiting import LIMIT_S

if TYPE_CHECKING:
    from app.kafka import Cluster

_BUSY, _FENCED = kafka.ConcurrentTransactions.errno, kafka.InvalidProducerEpoch.errno
_LOADING = kafka.CoordinatorLoadInProgressError.errno
_ORDERS: tuple[Any, ...] = (0, "orders", False, [(0, number, 0, [], []) for number in range(8)])


class Ending(Coordinated):
    """A coordinator of several IDs, some of which have partitions that do not accept the end of a transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.unfinished: dict[str, TopicPartition] = {}
        self.fenced: set[str] = set()
        #: Ids whose coordinator cannot answer yet, and the epoch of each id.
        self.loading: set[str] = set()
        self.epochs: dict[str, int] = {}
        #: The partitions of each transaction that was ended, by id, and those of the present one.
        self.ended: dict[str, list[set[TopicPartition]]] = defaultdict(list)
        self._added: dict[str, set[TopicPartition]] = defaultdict(set)
        #: The partitions that each request added to a transaction, by ID.
        self.joins: dict[str, list[set[TopicPartition]]] = defaultdict(list)
        #: The IDs of the batches, the IDs that requested a first epoch, and the event that answers wait for.
        self.used: list[str] = []
        self.asked: list[str] = []
        self.silent: asyncio.Event | None = None
        #: The actions on each ID, in order: it got an epoch, or its transaction was ended.
        self.done: list[tuple[str, str]] = []
        #: Ids whose next epoch is given, but does not arrive: there is no answer (0) or an error's code; how often each
        #: id was examined, when it got an epoch.
        self.unanswered: dict[str, int] = {}
        self.looks: dict[str, list[int]] = defaultdict(list)
        self._looked: dict[str, int] = defaultdict(int)

    async def send(self, node: int, request: Any, *, group: Hashable) -> Any:
        own: dict[type, Callable[[str, Any], Any]] = {
            Describe: lambda _, asked: SimpleNamespace(states=[self._state(id_) for id_ in asked.transactional_ids]),
            DescribeProducers: self._producers,
            MetadataRequest: lambda *_: SimpleNamespace(topics=[_ORDERS]),
            NextEpoch: self._next,
            AddPartitionsToTxnRequest: self._join,
            EndTxnRequest: self._end,
        }
        id_ = getattr(request, "_transactional_id", "")
        answer = own[type(request)](id_, request) if type(request) in own else None
        if isinstance(request, ProduceRequest):
            self.used.append(id_)
            if self.silent is not None:
                await self.silent.wait()
        return await super().send(node, request, group=group) if answer is None else answer

    @staticmethod
    def _producers(_: str, request: DescribeProducers) -> Any:
        found: list[Any] = [(topic, [(n, 0, None, [], {}) for n in of], {}) for topic, of in request.topics.items()]
        return SimpleNamespace(topics=found)

    def _refusal(self, id_: str) -> int:
        return _FENCED if id_ in self.fenced else _BUSY if id_ in self.unfinished else 0

    def _next(self, id_: str, _: NextEpoch) -> Any:
        self.asked.append(id_)
        code = _LOADING if id_ in self.loading else self._refusal(id_)
        if code:
            return SimpleNamespace(error_code=code)
        self.epochs[id_] = self.epochs.get(id_, -1) + 1
        self.done.append((id_, "epoch"))
        self.looks[id_].append(self._looked[id_])
        lost = self.unanswered.pop(id_, None)
        if lost:
            return SimpleNamespace(error_code=lost)
        if lost is not None:
            raise kafka.KafkaConnectionError
        return SimpleNamespace(error_code=0, producer_id=7, producer_epoch=self.epochs[id_])

    def _join(self, id_: str, request: Any) -> Any:
        code = self._refusal(id_)
        if code:
            return SimpleNamespace(errors=[(topic, [(n, code) for n in of]) for topic, of in request._topics])
        self.joins[id_].append({(topic, number) for topic, of in request._topics for number in of})
        self._added[id_] |= self.joins[id_][-1]
        return None

    def _end(self, id_: str, _: EndTxnRequest) -> None:
        self.done.append((id_, "end"))
        self.ended[id_].append(self._added.pop(id_, set()))

    def _state(self, id_: str) -> tuple[Any, ...]:
        self._looked[id_] += 1
        code = _LOADING if id_ in self.loading else 0
        state, left = "CompleteCommit", list[Any]()
        if id_ in self.unfinished:
            topic, number = self.unfinished[id_]
            state, left = "PrepareCommit", [(topic, [number], {})]
        return (code, id_, state, 0, 0, 7, self.epochs.get(id_, -1), left, {})


class Interrupted(Ending):
    """A coordinator that finds the first ID's transaction ongoing, and brokers with an open one in other partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs["delay-0"] = 4
        self.ongoing = frozenset({("orders", 0), ("orders", 6)})
        #: The epoch of the open transaction in each partition, and whether each end of a transaction was a commit.
        self.open: dict[TopicPartition, int] = {}
        self.committed: list[bool] = []

    def _next(self, id_: str, request: NextEpoch) -> Any:
        if request._producer == (7, -2):
            self.ongoing, self.states[id_] = frozenset(), "CompleteAbort"
            self.epochs[id_] += 1
            return SimpleNamespace(error_code=_BUSY)
        return super()._next(id_, request)

    def _end(self, id_: str, request: EndTxnRequest) -> None:
        if id_ == "delay-0":
            self.committed.append(request._transaction_result)
            for tp in self._added[id_]:
                self.open.pop(tp, None)
        super()._end(id_, request)

    def _state(self, id_: str) -> tuple[Any, ...]:
        if id_ != "delay-0":
            return super()._state(id_)
        state = "Ongoing" if self.ongoing else self.states[id_]
        return 0, id_, state, 0, 0, 7, self.epochs[id_], [(topic, [n], {}) for topic, n in self.ongoing], {}

    def _producers(self, _: str, request: DescribeProducers) -> Any:  # type: ignore[override]
        writers: dict[TopicPartition, Any] = {tp: [(7, epoch, 0, 0, 0, 3, {})] for tp, epoch in self.open.items()}
        topics: list[Any] = [
            (topic, [(n, 0, None, writers.get((topic, n), []), {}) for n in of], {})
            for topic, of in request.topics.items()
        ]
        return SimpleNamespace(topics=topics)


class Listener:
    """Hears which partitions hold transactions up."""

    def __init__(self) -> None:
        self.held: list[TopicPartition] = []

    def stuck(self, place: TopicPartition) -> Callable[[], None]:
        self.held.append(place)
        return lambda: self.held.remove(place)


@pytest.fixture
def cluster() -> Ending:
    """A cluster on which all is well."""
    return Ending()


@pytest.fixture
def listener() -> Listener:
    """A pool without news of its IDs."""
    return Listener()


def new_relay(cluster: Ending, listener: Listener) -> TransactionalIdPool:
    hanging = HangingTransactions(cast("Cluster", cluster), lambda _: True)
    return TransactionalIdPool(cast("Cluster", cluster), "delay-0", ("orders", 0), AGAIN, hanging, listener.stuck)


async def relay_of(cluster: Ending, listener: Listener) -> TransactionalIdPool:
    id_pool = new_relay(cluster, listener)
    await id_pool.fence()
    return id_pool


async def go_on_without_the_first(id_pool: TransactionalIdPool, cluster: Ending) -> str:
    """Have the first transaction not end, and make others; return the id that is held up."""
    await id_pool.run(deliver)
    first = cluster.used[0]
    cluster.unfinished[first] = ("refusing", 1)
    for _ in range(6):
        await id_pool.run(deliver)
    return first


async def deliver(transactions: Transactions) -> None:
    await transactions.send([("orders", 3, batch(b"a"))], 0.05)
    await transactions.commit()


async def deliver_until(id_pool: TransactionalIdPool, over: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not over():
            await id_pool.run(deliver)
            await asyncio.sleep(0.01)


@in_simulated_time
async def test_a_partition_that_has_accepted_the_end_is_not_held_for_another_one(
    cluster: Ending, listener: Listener
) -> None:
    id_pool = await relay_of(cluster, listener)
    first = await go_on_without_the_first(id_pool, cluster)

    cluster.unfinished[first] = ("another", 0)
    async with asyncio.timeout(LIMIT_S):
        while listener.held != [("another", 0)]:  # noqa: ASYNC110 - a plain list
            await asyncio.sleep(0.01)
    id_pool.close()
    await asyncio.sleep(0)
    assert not listener.held


@in_simulated_time
async def test_the_next_transaction_is_made_under_another_id(cluster: Ending, listener: Listener) -> None:
    id_pool = await relay_of(cluster, listener)
    first = await go_on_without_the_first(id_pool, cluster)

    assert len(set(cluster.used)) == 4
    assert cluster.used.count(first) == 1
    assert listener.held == [("refusing", 1)]

    cluster.unfinished.clear()
    async with asyncio.timeout(LIMIT_S):
        while listener.held:  # noqa: ASYNC110 - a plain list
            await asyncio.sleep(0.01)
    id_pool.close()


@in_simulated_time
async def test_all_ids_are_taken_over_and_an_id_that_cannot_end_does_not_block_the_others(
    cluster: Ending, listener: Listener
) -> None:
    cluster.unfinished["delay-0"] = ("refusing", 1)
    id_pool = await relay_of(cluster, listener)
    assert set(cluster.asked) == {"delay-0-1", "delay-0-2", "delay-0-3"}
    await id_pool.run(deliver)
    del cluster.unfinished["delay-0"]
    await deliver_until(id_pool, lambda: "delay-0" in cluster.asked)
    id_pool.close()


@pytest.mark.parametrize("code", [0, kafka.NotCoordinatorError.errno, kafka.CoordinatorNotAvailableError.errno])
@in_simulated_time
async def test_an_epoch_that_does_not_arrive_is_not_just_asked_for_again(
    cluster: Ending, listener: Listener, code: int
) -> None:
    """The request may have aborted the last owner's transaction: with the next epoch, that would be forgotten."""
    cluster.unanswered["delay-0"] = code
    await relay_of(cluster, listener)

    first, second = cluster.looks["delay-0"]
    assert second > first


@in_simulated_time
async def test_a_pool_that_has_lost_its_ids_is_informed(cluster: Ending, listener: Listener) -> None:
    id_pool = await relay_of(cluster, listener)
    await id_pool.run(deliver)
    cluster.fenced |= set(cluster.asked)
    with pytest.raises(Fenced):
        await id_pool.run(deliver)
    id_pool.close()


@in_simulated_time
async def test_a_destination_that_does_not_answer_is_left_out(cluster: Ending, listener: Listener) -> None:
    id_pool = await relay_of(cluster, listener)
    cluster.silent = asyncio.Event()
    with pytest.raises(Untaken, match="orders-3: it does not answer"):
        await id_pool.run(deliver)
    cluster.silent.set()
    await id_pool.run(deliver)
    id_pool.close()


@in_simulated_time
async def test_a_destination_that_is_not_there_costs_no_id(cluster: Ending, listener: Listener) -> None:
    id_pool = await relay_of(cluster, listener)
    began = len(cluster.done)
    cluster.refused["orders"].append(kafka.UnknownTopicOrPartitionError.errno)

    with pytest.raises(Untaken, match="orders-3: UnknownTopicOrPartitionError"):
        await id_pool.run(deliver)

    assert len(cluster.added) == 1  # it is not asked for again while others wait
    assert len(cluster.done) == began
    id_pool.close()


@in_simulated_time
async def test_a_partition_short_of_replicas_gets_no_more_batches_until_it_has_accepted_the_end(
    cluster: Ending, listener: Listener
) -> None:
    id_pool = await relay_of(cluster, listener)
    cluster.script["orders"].append(kafka.NotEnoughReplicasError.errno)
    with pytest.raises(Untaken):
        await id_pool.run(deliver)
    cluster.unfinished[cluster.used[0]] = ("orders", 3)
    await asyncio.sleep(0)
    assert listener.held == [("orders", 3)]  # before anyone may try again, which would cost another id

    cluster.unfinished.clear()
    await deliver_until(id_pool, lambda: not listener.held)
    id_pool.close()


@in_simulated_time
async def test_no_id_is_left_to_its_last_owner_because_its_coordinator_is_slow(
    cluster: Ending, listener: Listener
) -> None:
    cluster.loading.add("delay-0-2")
    id_pool = new_relay(cluster, listener)
    fencing = asyncio.create_task(id_pool.fence())
    done, _ = await asyncio.wait([fencing], timeout=1.5)
    assert not done  # its last owner might still commit under it

    cluster.loading.clear()
    async with asyncio.timeout(LIMIT_S):
        await fencing
    id_pool.close()


@in_simulated_time
async def test_a_pool_that_gets_an_id_back_sees_that_another_owner_had_it(cluster: Ending, listener: Listener) -> None:
    id_pool = await relay_of(cluster, listener)
    first = await go_on_without_the_first(id_pool, cluster)
    for id_ in set(cluster.epochs) - {first}:  # a new owner has taken the others, and goes on without this one
        cluster.epochs[id_] += 1
    cluster.unfinished.clear()

    with pytest.raises(Fenced):
        await deliver_until(id_pool, lambda: False)
    assert cluster.used.count(first) == 1
    id_pool.close()


@in_simulated_time
async def test_after_the_loss_of_a_broker_the_open_transaction_is_ended_first(
    cluster: Ending, listener: Listener
) -> None:
    id_pool = await relay_of(cluster, listener)
    await id_pool.run(deliver)
    first, cluster.lost = cluster.used[0], 1
    await deliver_until(id_pool, lambda: cluster.used.count(first) == 2)

    assert cluster.ended[first] == [{("orders", 3)}, {("orders", 3), AGAIN}, {("orders", 3)}]
    id_pool.close()


@in_simulated_time
async def test_no_transaction_begins_without_a_mark_while_the_end_of_the_last_one_is_in_doubt(
    cluster: Ending, listener: Listener
) -> None:
    """Its owner may die before it can mark it: then the next owner would abort both."""
    id_pool = await relay_of(cluster, listener)
    await id_pool.run(deliver)
    first = cluster.used[0]
    for _ in range(3):
        await id_pool.run(deliver)

    cluster.unfinished[first] = ("orders", 3)  # the coordinator is still writing markers
    next_one = asyncio.ensure_future(id_pool.run(deliver))
    await asyncio.sleep(0.01)
    cluster.lost = 1
    cluster.unfinished.clear()  # it takes a partition without a leader for deleted
    await next_one
    await deliver_until(id_pool, lambda: cluster.used.count(first) == 2)

    assert cluster.ended[first][1] == {("orders", 3), AGAIN}
    assert cluster.joins[first][1] == {("orders", 3), AGAIN}
    id_pool.close()


@pytest.mark.parametrize(
    ("open_in", "epoch", "committed"),
    [(("orders", 5), 4, True), (("orders", 6), 4, False), (("orders", 5), 3, False)],
    ids=["not in the interrupted transaction", "in the interrupted transaction", "of an earlier epoch"],
)
@in_simulated_time
async def test_an_open_transaction_that_was_committed_before_an_interrupted_one_is_committed(
    listener: Listener, open_in: TopicPartition, epoch: int, *, committed: bool
) -> None:
    """The last owner died when it had begun another transaction, and had not learnt that a marker was lost."""
    cluster = Interrupted()
    cluster.open[open_in] = epoch
    id_pool = await relay_of(cluster, listener)

    assert cluster.committed == [committed]
    assert cluster.ended["delay-0"] == [{open_in, AGAIN} if committed else {open_in}]
    assert not cluster.open
    id_pool.close()


@in_simulated_time
async def test_a_pool_that_is_being_replaced_ends_no_transaction_again(cluster: Ending, listener: Listener) -> None:
    """The new owner may have looked already: its epoch would abort the transaction that is being ended again."""
    id_pool = await relay_of(cluster, listener)
    await id_pool.run(deliver)
    first, cluster.lost = cluster.used[0], 1
    cluster.epochs["delay-0-3"] += 1

    with pytest.raises(Fenced):
        await deliver_until(id_pool, lambda: False)
    assert cluster.ended[first] == [{("orders", 3)}]
    id_pool.close()


@in_simulated_time
async def test_how_a_transaction_ended_is_not_forgotten_for_an_epoch_before_it_is_settled(
    cluster: Ending, listener: Listener
) -> None:
    """A coordinator that gives a new epoch forgets the end; if the process dies then, the outcome stays unknown."""
    id_pool = await relay_of(cluster, listener)
    cluster.down, cluster.losing = True, [EndTxnRequest]
    await id_pool.run(deliver)
    first = cluster.used[0]
    await deliver_until(id_pool, lambda: cluster.used.count(first) == 2)

    assert [what for id_, what in cluster.done if id_ == first][:5] == ["epoch", "end", "end", "end", "epoch"]
    assert cluster.ended[first][2] == {
        ("orders", 3),
        AGAIN,
    }  # the end of an empty transaction, before another epoch is requested
    id_pool.close()


@in_simulated_time
async def test_ids_that_have_rested_for_long_get_another_epoch_so_that_brokers_do_not_forget_them(
    cluster: Ending, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_pool = await relay_of(cluster, listener)
    await id_pool.run(deliver)
    await id_pool.tend()
    before, loop = dict(cluster.epochs), asyncio.get_running_loop()
    await asyncio.sleep(0.01)
    assert cluster.epochs == before

    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now + 86_401)
    await id_pool.tend()
    await id_pool.tend()
    monkeypatch.undo()
    async with asyncio.timeout(LIMIT_S):
        while any(cluster.epochs[id_] == epoch for id_, epoch in before.items()):  # noqa: ASYNC110 - a plain dict
            await asyncio.sleep(0.01)
    await id_pool.run(deliver)
    id_pool.close()
