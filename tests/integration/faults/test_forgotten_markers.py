"""A coordinator leaves out markers of partitions without a leader: owners and their heirs have them written."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from app.dev.broker import Broker
from app.kafka import Batch, Cluster
from app.kafka.metadata.offsets import TopicPartition
from app.kafka.transactions.coordinator import TransactionStuck
from app.kafka.transactions.hanging import HangingTransactions
from app.kafka.transactions.id_pool import TransactionalIdPool
from app.kafka.transactions.transaction import Transactions
from tests.harness.kafka import create_topic, now_ms, read
from tests.harness.waiting import LIMIT_S

pytestmark = pytest.mark.kafka

TOPIC = "orders"
HOME, OTHER, THIRD = ((TOPIC, number) for number in range(3))
AGAIN = ("progress", 0)


class Forgotten(Transactions):
    """Transactions without markers in some partitions, because the coordinator does not know these partitions."""

    def __init__(self, cluster: Cluster, id_: str, *, forgets: set[TopicPartition]) -> None:
        super().__init__(cluster, id_, AGAIN)
        self.forgets = forgets

    async def _join(self, places: Iterable[TopicPartition], stuck_s: float | None) -> tuple[TopicPartition, int] | None:
        refused = await super()._join(set(places) - self.forgets, stuck_s)
        self._added |= {place: self._cluster.losses(place) for place in self.forgets}
        return refused


class Died(Exception):
    """An owner's death in a test."""


async def die(*_: object, committed: bool) -> None:
    raise Died(committed)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that takes batches without asking the coordinator whether their partition is in a transaction."""
    with Broker() as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap, "log_level": 0})
        entry = ConfigEntry(
            "transaction.partition.verification.enable", "false", incremental_operation=AlterConfigOpType.SET
        )
        [answer] = admin.incremental_alter_configs(
            [ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])]
        ).values()
        answer.result(LIMIT_S)
        create_topic(started.bootstrap, TOPIC, 3)
        create_topic(started.bootstrap, AGAIN[0], 1)
        yield started


@pytest.fixture
async def cluster(broker: Broker) -> AsyncIterator[Cluster]:
    """Yield a started client of the broker."""
    made = Cluster(broker.bootstrap)
    await made.start(TOPIC)
    await made.refresh([TOPIC])
    yield made
    await made.stop()


def batches(value: bytes, *places: TopicPartition) -> list[tuple[str, int, Batch]]:
    made = [(*place, Batch(transactional=True)) for place in places]
    for *_, one in made:
        one.append(now_ms(), None, value)
    return made


async def assert_open(cluster: Cluster, *wanted: TopicPartition) -> None:
    """Check that transactions are open in these places only, once markers on their way are written."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            found = await HangingTransactions(cluster, TOPIC.__eq__).look()
            if {place for places in found.by_producer.values() for place in places} == set(wanted):
                return
            await asyncio.sleep(0.01)


def read_with(broker: Broker, value: bytes) -> set[TopicPartition]:
    return {(TOPIC, record.partition) for record in read(broker.bootstrap, TOPIC) if record.value == value}


async def half_ended(cluster: Cluster, value: bytes, *, committed: bool) -> Forgotten:
    """Return the second id of an owner whose last transaction has ended in THIRD alone."""
    last = Forgotten(cluster, f"{value.decode()}-1", forgets={HOME, OTHER})
    await last.init()
    await last.send(batches(value, HOME, OTHER, THIRD))
    await (last.commit() if committed else last.abort())
    return last


async def assert_inherited(broker: Broker, cluster: Cluster, value: bytes, *, committed: bool) -> None:
    """Check that a new owner ends the last one's transaction everywhere, as it was decided."""
    heir = TransactionalIdPool(
        cluster, value.decode(), HOME, AGAIN, HangingTransactions(cluster, TOPIC.__eq__), lambda _: lambda: None
    )
    await heir.fence()
    heir.close()

    await assert_open(cluster)
    assert read_with(broker, value) == ({HOME, OTHER, THIRD} if committed else set())


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("committed", [True, False])
async def test_who_loses_a_broker_ends_its_last_transaction_again(
    broker: Broker, cluster: Cluster, *, committed: bool, early: bool
) -> None:
    """A broker that was lost before the transaction ended may have been away when it did."""
    value = b"owner %d %d" % (committed, early)
    owner = Forgotten(cluster, value.decode(), forgets={HOME, OTHER})
    await owner.init()
    await owner.send(batches(value, HOME, OTHER, THIRD))
    if early:
        cluster.lose(1)
    await (owner.commit() if committed else owner.abort())
    await assert_open(cluster, HOME, OTHER)

    owner.forgets.clear()
    if not early:
        assert not owner.doubtful
        cluster.lose(1)
    assert owner.doubtful
    await owner.settle()

    assert not owner.doubtful
    await assert_open(cluster)
    assert read_with(broker, value) == ({HOME, OTHER, THIRD} if committed else set())


@pytest.mark.parametrize("committed", [True, False])
async def test_a_new_owner_ends_a_decided_transaction(broker: Broker, cluster: Cluster, *, committed: bool) -> None:
    value = b"heir %d" % committed
    await half_ended(cluster, value, committed=committed)
    await assert_open(cluster, HOME, OTHER)

    await assert_inherited(broker, cluster, value, committed=committed)


@pytest.mark.parametrize("committed", [True, False])
async def test_a_new_owner_continues_to_end_a_transaction(broker: Broker, cluster: Cluster, *, committed: bool) -> None:
    value = b"again %d" % committed
    last = await half_ended(cluster, value, committed=committed)
    last.forgets.clear()
    last._end = die  # type: ignore[method-assign]
    cluster.lose(1)
    with pytest.raises(Died):
        await last.settle()

    await assert_inherited(broker, cluster, value, committed=committed)


@pytest.mark.parametrize("committed", [True, False])
async def test_a_new_owner_may_die_with_the_epoch_that_makes_the_coordinator_forget(
    broker: Broker, cluster: Cluster, *, committed: bool
) -> None:
    value = b"epoch %d" % committed
    await half_ended(cluster, value, committed=committed)
    first = Transactions(cluster, f"{value.decode()}-1", AGAIN)
    first._end_in = die  # type: ignore[method-assign,assignment]
    with pytest.raises(Died):
        await first.take_over(HOME, HangingTransactions(cluster, TOPIC.__eq__))

    await assert_inherited(broker, cluster, value, committed=committed)


async def test_an_owner_may_die_with_the_epoch_after_an_abort_of_its_own(broker: Broker, cluster: Cluster) -> None:
    value = b"renewed"
    last = await half_ended(cluster, value, committed=False)
    await last.renew()
    await assert_open(cluster, HOME, OTHER)

    await assert_inherited(broker, cluster, value, committed=False)


async def test_a_transaction_is_not_begun_while_the_last_one_is_in_doubt(broker: Broker, cluster: Cluster) -> None:
    id_pool = TransactionalIdPool(
        cluster, "relay", HOME, AGAIN, HangingTransactions(cluster, TOPIC.__eq__), lambda _: lambda: None
    )
    await id_pool.fence()

    async def lose_a_broker(transactions: Transactions) -> None:
        await transactions.send(batches(b"relay", HOME, OTHER))
        if not cluster.losses(HOME) % 2:
            cluster.lose(1)
        await transactions.commit()

    for _ in range(12):
        await id_pool.run(lose_a_broker)
    id_pool.close()

    await assert_open(cluster)
    assert read_with(broker, b"relay") == {HOME, OTHER}


@pytest.mark.parametrize("committed", [True, False])
async def test_the_last_owner_may_go_on_until_its_id_is_taken_over(
    broker: Broker, cluster: Cluster, *, committed: bool
) -> None:
    """A commit after the new owner's look ends as committed; a transaction that is under way then ends as aborted."""
    value = b"meanwhile %d" % committed
    last = Forgotten(cluster, f"{value.decode()}-1", forgets={HOME, OTHER})
    await last.init()
    first = Transactions(cluster, f"{value.decode()}-1", AGAIN)
    read_note = first._abort_marker.read

    async def go_on() -> bool:
        first._abort_marker.read = read_note  # type: ignore[method-assign]
        if not last._added:
            await last.send(batches(value, HOME, OTHER, THIRD))
            if committed:
                await last.commit()
        return await read_note()

    first._abort_marker.read = go_on  # type: ignore[method-assign]
    first._end_in = die  # type: ignore[method-assign,assignment]
    with pytest.raises(Died):
        await first.take_over(HOME, HangingTransactions(cluster, TOPIC.__eq__))
    await assert_open(cluster, HOME, OTHER)

    await assert_inherited(broker, cluster, value, committed=committed)


async def test_an_abort_by_another_is_not_forgotten_for_an_epoch(broker: Broker, cluster: Cluster) -> None:
    """An owner that has found an ongoing transaction may request its abort after another new owner's request did it."""
    value = b"overtaken"
    last = Forgotten(cluster, f"{value.decode()}-1", forgets={HOME, OTHER})
    await last.init()
    await last.send(batches(value, HOME, OTHER, THIRD))
    first, other = (Transactions(cluster, f"{value.decode()}-1", AGAIN) for _ in range(2))
    describe = first._describe

    async def be_overtaken() -> Any:
        found = await describe()
        if found[2] == "Ongoing":
            with contextlib.suppress(TransactionStuck):
                await other.init(stuck_s=0)
            while (await describe())[2] != "CompleteAbort":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return found

    first._describe = be_overtaken  # type: ignore[method-assign]
    first._end_in = die  # type: ignore[method-assign,assignment]
    with pytest.raises(Died):
        await first.take_over(HOME, HangingTransactions(cluster, TOPIC.__eq__))
    await assert_open(cluster, HOME, OTHER)

    await assert_inherited(broker, cluster, value, committed=False)
