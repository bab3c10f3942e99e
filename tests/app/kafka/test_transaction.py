"""Transactions: records of an aborted one can be part of the next."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Hashable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import aiokafka.errors as kafka
import pytest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest
from aiokafka.record.memory_records import MemoryRecords

from app.kafka.errors import BatchRejected, NotAuthorised, TooLarge
from app.kafka.metadata.coordinators import Coordinators, FindCoordinators
from app.kafka.metadata.describe_transactions import Describe
from app.kafka.produce.batch import Ack
from app.kafka.produce.partition_queue import SEQUENCES
from app.kafka.transactions.coordinator import Fenced, IdForbidden, TransactionStuck
from app.kafka.transactions.next_epoch import NOBODY, NextEpoch
from app.kafka.transactions.transaction import Transactions, Untaken
from tests.app.fake_kafka import TOO_LARGE, batch
from tests.harness.simulated_time import in_simulated_time
from tests.harness.waiting import LIMIT_S

if TYPE_CHECKING:
    from app.kafka import Cluster


AGAIN = ("progress", 0)


class Coordinated:
    """A cluster of one node, which gives a new epoch at each asking; answers to batches may be on a script."""

    def __init__(self) -> None:
        self.lost = 0
        #: Epoch and state of each transactional id.
        self.epochs, self.states = dict[str, int](), dict[str, str]()
        #: Whether an answer is lost with its broker.
        self.down = False
        self.script: dict[str, deque[int]] = defaultdict(deque)
        #: The errors of a topic when its partitions are added, one code per request.
        self.refused: dict[str, deque[int]] = defaultdict(deque)
        #: The topics that each request was to add.
        self.added: list[list[str]] = []
        #: Whether a leader is lost while the next request to add partitions is in flight.
        self.losing_leader = False
        #: Kinds of requests whose next answer is lost.
        self.losing: list[type] = []
        #: The error of every transactional ID.
        self.forbidden = 0
        #: Epoch, first sequence and answer of each batch, by topic.
        self.taken: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        self.coordinators = Coordinators(self.ask, self.ask_coordinator)

    @property
    def client(self) -> "Coordinated":
        return self

    def leader(self, _topic: str, _partition: int) -> int:
        return 0

    def losses(self, _place: object) -> int:
        return self.lost

    async def look_for_losses(self) -> None:
        """Answer that there is no coordinator."""

    async def ask(self, request: Any) -> Any:
        return await self.send(0, request, group="any")

    async def refresh(self, _topics: object) -> set[str]:
        return set()

    async def ask_coordinator(self, node: int, request: Any) -> Any:
        return await self.send(node, request, group="coordinator")

    def begin(self, node: int, request: Any, *, group: Hashable) -> "asyncio.Future[Any]":
        return asyncio.ensure_future(self.send(node, request, group=group))

    async def send(self, _node: int, request: Any, *, group: Hashable) -> Any:  # noqa: ARG002 - as aiokafka has it
        if isinstance(request, ProduceRequest):
            return SimpleNamespace(
                topics=[(topic, [self._take(topic, *one) for one in of]) for topic, of in request._topics]
            )
        if isinstance(request, FindCoordinators):
            return SimpleNamespace(
                coordinators=[(id_, 0, "", 0, self.forbidden, None, {}) for id_ in request.transactional_ids]
            )
        if isinstance(request, Describe):
            return SimpleNamespace(states=[self._described(id_) for id_ in request.transactional_ids])
        id_ = request._transactional_id
        if isinstance(request, AddPartitionsToTxnRequest):
            self.added.append([topic for topic, _ in request._topics])
            self.lost, self.losing_leader = self.lost + self.losing_leader, False
            self.states[id_] = "Ongoing"
            return SimpleNamespace(errors=self._add(request._topics))
        if isinstance(request, EndTxnRequest):
            self.states[id_] = "CompleteCommit" if request._transaction_result else "CompleteAbort"
        if isinstance(request, NextEpoch):
            if request._producer not in (NOBODY, (7, self.epochs.get(id_, -1))):
                return SimpleNamespace(error_code=kafka.InvalidProducerEpoch.errno)
            self.epochs[id_], self.states[id_] = self.epochs.get(id_, -1) + 1, "Empty"
        if type(request) in self.losing:
            self.losing.remove(type(request))
            self.lost += self.down
            raise kafka.RequestTimedOutError
        return SimpleNamespace(error_code=0, producer_id=7, producer_epoch=self.epochs.get(id_, -1))

    def _described(self, id_: str) -> tuple[Any, ...]:
        if id_ not in self.epochs:
            return 105, id_, "", 0, 0, 0, 0, [], {}
        return 0, id_, self.states[id_], 0, 0, 7, self.epochs[id_], [], {}

    def _add(self, topics: list[tuple[str, list[int]]]) -> list[tuple[str, list[tuple[int, int]]]]:
        codes = {topic: self.refused[topic].popleft() for topic, _ in topics if self.refused[topic]}
        others = kafka.OperationNotAttempted.errno if codes else 0
        return [(topic, [(number, codes.get(topic, others)) for number in numbers]) for topic, numbers in topics]

    def _take(self, topic: str, partition: int, raw: bytes) -> tuple[int, int, int, int]:
        found = MemoryRecords(raw).next_batch()
        code = self.script[topic].popleft() if self.script[topic] else 0
        self.taken[topic].append((found.producer_epoch, found.base_sequence, code))
        return partition, code, -1 if code else 0, -1


@in_simulated_time
async def test_a_batch_of_an_aborted_transaction_is_numbered_again_for_the_next() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    innocent, large = batch(b"innocent"), batch(b"large")
    cluster.script["payments"].extend([kafka.NotLeaderForPartitionError.errno, TOO_LARGE])

    with pytest.raises(Untaken) as raised:  # it may have been taken the first time
        await transactions.send([("orders", 0, innocent), ("payments", 0, large)])
    assert isinstance(raised.value.error, TooLarge)
    await transactions.abort()
    await transactions.renew()
    await transactions.send([("orders", 0, innocent)])

    # With its old numbers a broker would take it for the batch that was aborted, or for a zombie's.
    assert cluster.taken["orders"] == [(0, 0, 0), (1, 0, 0)]


@in_simulated_time
async def test_numbers_begin_again_after_the_largest() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    transactions._sequences["orders", 0] = SEQUENCES - 1
    for _ in range(2):
        await transactions.send([("orders", 0, batch(b"x"))])

    assert [sequence for _, sequence, _ in cluster.taken["orders"]] == [SEQUENCES - 1, 0]


@in_simulated_time
async def test_a_permanent_refusal_of_one_destination_does_not_affect_the_rest_of_the_transaction() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    cluster.script["payments"].append(TOO_LARGE)

    large, innocent = await transactions.send([("payments", 0, batch(b"large")), ("orders", 0, batch(b"innocent"))])
    await transactions.send([("payments", 0, batch(b"small"))])
    await transactions.commit()

    assert isinstance(large, TooLarge)
    assert isinstance(innocent, Ack)
    assert cluster.taken["payments"] == [(0, 0, TOO_LARGE), (0, 0, 0)]  # the refused batch has used no sequence number


@in_simulated_time
async def test_what_follows_a_refused_batch_in_its_partition_is_not_sent() -> None:
    """It may come again in smaller batches, which must not be overtaken."""
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    cluster.script["payments"].extend([0, TOO_LARGE])
    values = ((b"first", "payments"), (b"large", "payments"), (b"next", "payments"), (b"innocent", "orders"))

    first, large, next_, innocent = await transactions.send([(topic, 0, batch(value)) for value, topic in values])
    await transactions.commit()
    await transactions.send([("payments", 0, batch(b"small"))])

    assert isinstance(large, TooLarge)
    assert (type(first), next_, type(innocent)) == (Ack, None, Ack)
    assert cluster.taken["payments"] == [(0, 0, 0), (0, 1, TOO_LARGE), (0, 1, 0)]


@in_simulated_time
async def test_a_partition_with_many_batches_keeps_those_it_had_time_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, passed_s = Coordinated(), [0.0]
    loop = asyncio.get_running_loop()
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + passed_s[0])
    take = cluster._take

    def slowly(*of: Any) -> tuple[int, int, int, int]:
        passed_s[0] += 10.0
        return take(*of)

    monkeypatch.setattr(cluster, "_take", slowly)
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()

    acks = await transactions.send([("orders", 0, batch(b"x")) for _ in range(6)], 25.0)
    await transactions.commit()

    assert [type(ack) for ack in acks] == [Ack, Ack, Ack, type(None), type(None), type(None)]
    assert len(cluster.taken["orders"]) == 3


@in_simulated_time
async def test_a_refusal_of_a_batch_that_may_be_stored_already_spoils_the_transaction() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    cluster.script["payments"].extend([kafka.RequestTimedOutError.errno, TOO_LARGE])

    with pytest.raises(Untaken):
        await transactions.send([("payments", 0, batch(b"large"))], 1.0)


@in_simulated_time
async def test_a_batch_that_is_tried_again_within_its_transaction_keeps_its_number() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    not_leader = 6
    cluster.script["orders"].append(not_leader)

    await transactions.send([("orders", 0, batch(b"a")), ("orders", 0, batch(b"b"))])

    assert cluster.taken["orders"] == [(0, 0, not_leader), (0, 0, 0), (0, 1, 0)]


@in_simulated_time
async def test_a_batch_whose_leader_is_silent_is_sent_again_by_another_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The leader may be asking a coordinator that is gone whether the transaction is under way."""
    cluster, groups = Coordinated(), list[Hashable]()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    await transactions.send([("orders", 0, batch(b"a"))])
    begin = cluster.begin

    def silent_once(node: int, request: Any, *, group: Hashable) -> "asyncio.Future[Any]":
        groups.append(group)
        return asyncio.get_running_loop().create_future() if len(groups) == 1 else begin(node, request, group=group)

    monkeypatch.setattr(cluster, "begin", silent_once)
    async with asyncio.timeout(LIMIT_S):
        await transactions.send([("orders", 0, batch(b"b"))])

    assert groups[0] != groups[1]
    assert [sequence for _, sequence, _ in cluster.taken["orders"]] == [0, 1]


@in_simulated_time
async def test_a_forbidden_id_is_an_error_and_not_retried() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    cluster.forbidden = kafka.TransactionalIdAuthorizationFailed.errno

    with pytest.raises(IdForbidden, match="delay-0"):
        await transactions.init()


@in_simulated_time
async def test_a_leader_that_is_away_is_not_asked_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, pauses = Coordinated(), list[float]()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("app.kafka.transactions.transaction.asyncio.sleep", sleep)
    cluster.script["orders"].extend([kafka.NotLeaderForPartitionError.errno] * 20)

    await transactions.send([("orders", 0, batch(b"a"))])

    assert pauses[0] < 0.01, "usually there is another leader at once"
    assert sum(pauses[:10]) > 0.4, "but there may be none for long"
    assert max(pauses) <= 0.1


@in_simulated_time
async def test_a_destination_short_of_replicas_is_left_out_at_once_and_our_own_topics_are_tried_again() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    short = kafka.NotEnoughReplicasError.errno
    cluster.script["orders"].extend([short, short])

    with pytest.raises(Untaken) as raised:
        await transactions.send([("orders", 0, batch(b"a"))], 60.0)
    assert raised.value.short
    assert raised.value.error is None
    await transactions.abort()
    await transactions.renew()
    await transactions.send([("orders", 0, batch(b"b"))])

    assert cluster.taken["orders"] == [(0, 0, short), (1, 0, short), (1, 0, 0)]


@in_simulated_time
async def test_a_commit_that_had_to_be_repeated_is_followed_by_another_epoch() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    for value, lost in ((b"a", EndTxnRequest), (b"b", None), (b"c", None)):
        cluster.losing = [lost] if lost is not None else []
        await transactions.send([("orders", 0, batch(value))])
        await transactions.commit()

    # Else the first commit, if it arrived late, would end the second transaction before its time.
    assert cluster.taken["orders"] == [(0, 0, 0), (1, 0, 0), (1, 1, 0)]


@pytest.mark.parametrize(("end", "known_by"), [("commit", [["progress"]]), ("abort", [])])
@in_simulated_time
async def test_a_commit_that_must_be_repeated_is_recognised_at_once(end: str, known_by: list[list[str]]) -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    await transactions.send([("orders", 0, batch(b"a"))])
    await getattr(transactions, end)()
    cluster.losing_leader = True
    cluster.added.clear()

    # A leader may be down for long. A new owner of the ID would then abort it, and lose the committed batches.
    with pytest.raises(TransactionStuck):
        await transactions.send([("payments", 0, batch(b"b"))])
    assert cluster.added == [["payments"], *known_by]


@in_simulated_time
async def test_no_transaction_begins_after_the_loss_of_a_leader_of_the_last_one() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    await transactions.send([("orders", 0, batch(b"a"))])
    await transactions.commit()
    cluster.lost += 1
    cluster.added.clear()

    with pytest.raises(TransactionStuck):
        await transactions.send([("payments", 0, batch(b"b"))])
    assert cluster.added == []


@in_simulated_time
async def test_an_owner_that_has_lost_its_id_does_not_take_it_back() -> None:
    cluster = Coordinated()
    zombie, owner = (Transactions(cast("Cluster", cluster), "delay-0", AGAIN) for _ in range(2))
    await zombie.init()
    await owner.init()

    with pytest.raises(Fenced):
        await zombie.init()  # as after an abort
    await owner.send([("orders", 0, batch(b"a"))])
    await owner.abort()
    await owner.renew()

    assert cluster.taken["orders"] == [(1, 0, 0)]
    assert cluster.epochs["delay-0"] == 2


@in_simulated_time
async def test_an_abort_is_noted_before_the_coordinator_forgets_it() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    for _ in range(2):  # the second finds the note as the first has left it
        await transactions.send([("orders", 0, batch(b"a"))])
        cluster.losing = [EndTxnRequest]
        await transactions.abort()
        assert cluster.states["delay-0-end"] == "CompleteAbort"
        await transactions.renew()
        assert (cluster.states["delay-0"], cluster.states["delay-0-end"]) == ("Empty", "CompleteAbort")
    assert cluster.added.count(["progress"]) == 1

    cluster.losing = [EndTxnRequest]  # a commit that may come twice takes another epoch, too
    await transactions.send([("orders", 0, batch(b"b"))])
    await transactions.commit()
    assert (cluster.states["delay-0"], cluster.states["delay-0-end"]) == ("Empty", "Empty")


@in_simulated_time
async def test_who_finds_a_note_of_another_has_lost_the_id() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    await transactions.send([("orders", 0, batch(b"a"))])
    cluster.epochs["delay-0-end"], cluster.states["delay-0-end"] = 3, "CompleteAbort"

    with pytest.raises(Fenced):
        await transactions.abort()
    assert cluster.states["delay-0"] == "Ongoing"  # its new owner finds that, and aborts it


@in_simulated_time
async def test_a_transaction_that_the_coordinator_does_not_know_is_lost() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    cluster.script["orders"].append(kafka.InvalidTxnState.errno)

    with pytest.raises(Fenced):
        await transactions.send([("orders", 0, batch(b"a"))])


@pytest.mark.parametrize(
    ("code", "error"), [(kafka.UnknownTopicOrPartitionError.errno, None), (29, NotAuthorised), (17, BatchRejected)]
)
@in_simulated_time
async def test_a_destination_that_cannot_be_added_is_left_out(code: int, error: type | None) -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    innocent, first, second = batch(b"innocent"), batch(b"first"), batch(b"second")
    cluster.refused["payments"].extend([code] * 100)

    with pytest.raises(Untaken) as raised:
        await transactions.send([("orders", 0, innocent), ("payments", 3, first), ("payments", 3, second)], 0.05)
    assert (raised.value.topic, raised.value.partition, raised.value.batch) == ("payments", 3, first)
    assert type(raised.value.error) is error if error is not None else raised.value.error is None
    await transactions.abort()
    await transactions.renew()
    await transactions.send([("orders", 0, innocent)], 0.05)
    await transactions.commit()

    assert cluster.taken["orders"] == [(1, 0, 0)]


@in_simulated_time
async def test_partitions_for_which_batches_follow_are_added_at_the_same_time() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    await transactions.send([("orders", 0, batch(b"a"))], 1.0, [("changelog", 3), ("events", 3)])
    await transactions.send([("changelog", 3, batch(b"b")), ("events", 3, batch(b"c"))])

    assert cluster.added == [["changelog", "events", "orders"]]


@in_simulated_time
async def test_a_partition_error_that_matters_later_delays_no_batch_now() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    cluster.refused["changelog"].append(kafka.UnknownTopicOrPartitionError.errno)
    await transactions.send([("orders", 0, batch(b"a"))], 1.0, [("changelog", 3)])
    await transactions.send([("changelog", 3, batch(b"b"))])

    assert cluster.added == [["changelog", "orders"], ["orders"], ["changelog"]]


@in_simulated_time
async def test_our_own_topics_are_added_as_soon_as_the_coordinator_knows_them() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    cluster.refused["delay-events"].extend([kafka.UnknownTopicOrPartitionError.errno] * 3)

    await transactions.send([("orders", 0, batch(b"a")), ("delay-events", 0, batch(b"b"))])

    assert cluster.taken["delay-events"] == [(0, 0, 0)]


@in_simulated_time
async def test_a_coordinator_that_fails_is_asked_again() -> None:
    cluster = Coordinated()
    transactions = Transactions(cast("Cluster", cluster), "delay-0", AGAIN)
    await transactions.init()
    cluster.refused["orders"].extend([kafka.UnknownError.errno] * 3)

    await transactions.send([("orders", 0, batch(b"a"))])

    assert cluster.taken["orders"] == [(0, 0, 0)]
