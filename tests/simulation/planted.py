"""Bugs in the order of operations, to be planted in the production code: the simulation must find each."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import msgspec

from app.engine.commit.journal import Journal
from app.engine.commit.transactional_journal import TransactionalJournal
from app.engine.deliver.delivery_batch import DeliveryBatch
from app.engine.deliver.dispatcher import Dispatcher
from app.engine.deliver.posts import Posts
from app.engine.due.http_rows import HttpRows
from app.engine.due.input_lag import InputLag
from app.engine.due.row_firing import RowFiring
from app.engine.ingest import commands, schedules
from app.engine.ownership import arrival_search, destination_end
from app.engine.ownership.changelog_guard import ChangelogGuard
from app.engine.ownership.destination_end import DestinationEnd
from app.engine.ownership.partition_catch_up import PartitionCatchUp
from app.engine.partition.claims import ArrivedRow
from app.engine.partition.partition import Partition
from app.engine.partition.replanning import Replanning
from app.engine.reports.watermark import Watermark
from app.engine.steps import moves, occurrences, outcome_handler, plan, series_rules, transitions
from app.engine.steps.bounds import BoundJoiner
from app.engine.steps.command_memory import CommandMemory
from app.engine.steps.outcome_handler import OutcomeHandler
from app.engine.steps.outcomes import Attempted, Delivered
from app.engine.steps.route import Route
from app.engine.steps.step import Step
from app.engine.throttle.allowance import Allowance
from app.engine.throttle.controls import Controls
from app.kafka import Ack, Batch
from app.kafka.metadata.reader import PartitionReader
from app.kafka.transactions import transaction
from app.kafka.transactions.completion import CompletedId
from punctual.contract import forward, jitter, retry
from punctual.contract.native import Copy
from tables import Bound, Changes, Command, Entry, PartitionStore, RecordStamp, Series, followed, keys
from tables.restore import StaleFilter
from tables.row_writes import RowWrites
from tests.simulation import planted_teams

_FENCE = TransactionalJournal.fence
_LATE_S, _SLOW_S = 0.05, 0.3
#: Later than anything is remembered until.
_FAR_MS = keys.MAX_DUE_MS
#: The replaced function: class or module, name, and the maker of the new function from the old one.
Bug = tuple[Any, str, Callable[[Any], Any]]


def _by_source(_: Any) -> Any:
    def planted(source: str, *_: object) -> str:
        return source

    return planted


def _removal_first(submit: Any) -> Any:
    def planted(self: Dispatcher, load: DeliveryBatch, *, first: bool = False) -> None:
        submit(self, load, first=first)
        self._delivered(load, Ack(0, -1))

    return planted


def _position_first(commit: Any) -> Any:
    async def planted(self: Journal, partition: int, step: Step) -> None:
        store, ahead = self._table.stores[partition], Changes()
        ahead.positions = step.changes.positions
        store.apply(ahead, store.offset, store.writer, step.now_ms)
        await commit(self, partition, step)

    return planted


def _nothing(_: Any) -> Any:
    async def planted(*_: Any, **__: Any) -> None:
        pass

    return planted


def _fence_last(claim: Any) -> Any:
    async def planted(self: TransactionalJournal, partition: int, now_ms: int) -> Any:
        await asyncio.sleep(_LATE_S)
        await _FENCE(self, partition)
        return await claim(self, partition, now_ms)

    return planted


def _readable_end(_: Any) -> Any:
    async def planted(self: PartitionReader) -> int:
        return await self.end()

    return planted


def _no_rewrite(_: Any) -> Any:
    async def planted(self: Journal, partition: int, _now_ms: int) -> None:
        self._table.stores[partition].foreign.keys.clear()

    return planted


def _no_epochs(_: Any) -> Any:
    def planted(_: StaleFilter, records: Any) -> Iterator[tuple[bytes, bytes | None]]:
        return ((record.key or b"", record.value) for record in records)

    return planted


def _local_first(commit: Any) -> Any:
    async def planted(self: TransactionalJournal, partition: int, step: Step) -> None:
        if not step.deliveries:
            store = self._table.stores[partition]
            store.apply(step.changes, store.offset, store.writer, step.now_ms)
            step.changes, kept = Changes(), step.changes
            batch, self._batch = self._batch, lambda _, writer, now: batch(kept, writer, now)  # type: ignore[assignment,method-assign]
            try:
                await commit(self, partition, step)
            finally:
                self._batch = batch  # type: ignore[method-assign]
        else:
            await commit(self, partition, step)

    return planted


def _old_numbers(_: Any) -> Any:
    def planted(_: Batch) -> None:
        pass

    return planted


def _by_arrival(_: Any) -> Any:
    def planted(_self: RecordStamp, _other: RecordStamp) -> bool:
        return False

    return planted


def _forgetful(_: Any) -> Any:
    def planted(*_: Any, **__: Any) -> None:
        return None

    return planted


def _only_at_the_end(plan_by: Any) -> Any:
    def planted(self: PartitionStore, zones: bytes) -> None:
        if zones:
            plan_by(self, zones)

    return planted


def _not_waited_for(read: Any) -> Any:
    async def later(self: Controls) -> None:
        await asyncio.sleep(_SLOW_S)
        await read(self)

    async def planted(self: Controls) -> None:
        asyncio.get_running_loop().create_task(later(self))

    return planted


def _never(_: Any) -> Any:
    def planted(*_: Any) -> bool:
        return False

    return planted


def _uncounted(_: Any) -> Any:
    def planted(_: Allowance) -> None: ...

    return planted


def _hasty(move_on: Any) -> Any:
    async def planted(self: Watermark, partition: Partition, _lowest_ms: int) -> None:
        await move_on(self, partition, 1 << 50)

    return planted


def _counts_anew(_: Any) -> Any:
    def planted(self: Bound, _other: Bound) -> Bound:
        return self

    return planted


def _forgets_tries(post: Any) -> Any:
    def planted(self: HttpRows, partition: Partition, key: bytes, entry: Entry, now: int) -> Any:
        return post(self, partition, key, msgspec.structs.replace(entry, next_try_ms=None), now)

    return planted


def _not_given_back(_: Any) -> Any:
    def planted(_context: Any, _step: Step, entry: Entry, _by: Command) -> bool:
        return entry.series is not None

    return planted


def _as_asked(_: Any) -> Any:
    def planted(self: Entry, asked_ms: int) -> tuple[int, Entry]:
        return asked_ms, self

    return planted


def _unheard(_: Any) -> Any:
    def planted(*_: Any, **__: Any) -> None:
        pass

    return planted


def _spread_again(decode: Any) -> Any:
    def planted(record: Any) -> Any:
        asked = decode(record)
        if asked.jitter_ms:
            asked.due_ms = jitter.spread(asked.id, asked.due_ms, asked.jitter_ms)
        return asked

    return planted


def _spent_at_once(_: Any) -> Any:
    def planted(memory: Any, limit: int) -> list[str]:
        commands_ = memory._store.commands
        return cast(
            "list[str]", commands_.spent(_FAR_MS, limit, lambda one: one.ended is not None and not one.cancelled)
        )

    return planted


def _removed_last(write: Any) -> Any:
    def planted(self: Any, batch: Any, changes: Changes) -> None:
        gone, changes.gone = changes.gone, {}
        write(self, batch, changes)
        changes.gone = gone
        if gone:
            self._remove_plain(batch, gone)

    return planted


def _drifting(following: Any) -> Any:
    def planted(entry: Entry, row: bytes, now_ms: int, most: int) -> Any:
        found = following(entry, row, now_ms, most)
        if found.next is None:
            return found
        due_ms, new = found.next
        return found._replace(next=(due_ms + max(0, now_ms - keys.due_of(row)), new))

    return planted


def _ended(_: Any) -> Any:
    def planted(*_: Any) -> occurrences.Onward:
        return occurrences.Onward()

    return planted


def _runs_from_then_on(moved: Any) -> Any:
    def planted(entry: Entry, due_ms: int, command: Command) -> moves.MovedOccurrence:
        if command.op == "deliver-now" and due_ms <= command.due_ms:
            return moves.MovedOccurrence(command.due_ms, entry)
        found: moves.MovedOccurrence = moved(entry, due_ms, command)
        return found

    return planted


def _when_read(moved: Any) -> Any:
    def planted(step: Step, key: bytes, entry: Entry, command: Command) -> Any:
        if command.op == "resume":
            command = msgspec.structs.replace(command, stamp_ms=step.broker_ms)
        return moved(step, key, entry, command)

    return planted


def _planned_again(resumed: Any) -> Any:
    def planted(entry: Entry, series: Series, due_ms: int, command: Command) -> moves.MovedOccurrence:
        found: moves.MovedOccurrence = resumed(entry, series, due_ms, command)
        if found.entry.series is None:
            return found
        again = moves.as_planned(found.entry.series)
        due_ms = occurrences.due_of(series_rules.rule_of(again), entry.id, again.planned_ms)
        return found._replace(due_ms=due_ms, entry=msgspec.structs.replace(found.entry, series=again))

    return planted


def _by_plan(_: Any) -> Any:
    def planted(_: plan.Plan, _id: str, ms: int) -> int:
        return ms

    return planted


def _counts_deliveries(_: Any) -> Any:
    def planted(rule: Any, _number: int) -> Any:
        return rule

    return planted


def _taken_first(begin: Any) -> Any:
    def planted(self: Posts, partition: Partition, key: bytes, entry: Entry, route: Route) -> None:
        begin(self, partition, key, entry, route)
        partition.tell(Delivered([key], 0, "", 0, self._clock.wall_ms()))

    return planted


def _given_up_at_once(_: Any) -> Any:
    def planted(_: OutcomeHandler, step: Step, outcome: Attempted, entry: Entry) -> None:
        step.remove(outcome.row, entry)

    return planted


def _one_name(_: Any) -> Any:
    def planted(entry: Entry, _due_ms: int) -> str:
        return entry.source

    return planted


def _none_found(_: Any) -> Any:
    async def planted(*_: Any) -> AsyncIterator[Any]:
        for one in list[Any]():
            yield one

    return planted


def _by_id(copy_of: Any) -> Any:
    def planted(headers: Any) -> Copy | None:
        copy: Copy | None = copy_of(headers)
        return copy and copy._replace(due=b"0", source=b"")

    return planted


def _claimed_when_known(settle: Any) -> Any:
    def planted(self: Partition, arrived: list[ArrivedRow]) -> None:
        for one in arrived:
            entry = None if self.in_flight.busy(one.row) else self.store.entry(one.row)
            if entry is not None:
                self.in_flight.claim(one.row, entry)
        settle(self, arrived)

    return planted


def _restored_from_what_is_there(_: Any) -> Any:
    async def planted(self: ChangelogGuard, number: int, store: PartitionStore, found: Any, **_: Any) -> PartitionStore:
        found.trusted = False
        return self._anew(number, store, found)

    return planted


def _wholly_written_at_once(mark: Any) -> Any:
    async def planted(self: ChangelogGuard, number: int, changes: Changes, head: Any, now_ms: int) -> None:
        await mark(self, number, changes, followed.head_at(head.offset, followed.WHOLE), now_ms)

    return planted


def _asked_again(_: Any) -> Any:
    async def planted(self: PartitionReader) -> None:
        if self._cluster.leader(self._topic, self._partition) is None:
            await self._cluster.refresh([self._topic])

    return planted


def _nobody_apart(_: Any) -> Any:
    def planted(*_: Any) -> dict[str, float]:
        return {}

    return planted


def _caught_up_at_once(_: Any) -> Any:
    async def planted(*_: Any) -> float:
        return asyncio.get_running_loop().time()

    return planted


def _as_of_now(go_live: Any) -> Any:
    def planted(self: Partition, read_s: float) -> None:
        go_live(self, max(read_s, asyncio.get_running_loop().time()))

    return planted


def _never_behind(_: Any) -> Any:
    def planted(*_: Any) -> float:
        return 0.0

    return planted


BUGS: dict[str, list[Bug]] = {
    "records for an id go by their arrival": [(RecordStamp, "precedes", _by_arrival)],
    "commands for an id that is not there are forgotten": [(CommandMemory, "wait", _forgetful)],
    "the end of an id is forgotten": [(CommandMemory, "end", _forgetful), (CommandMemory, "end_plain", _forgetful)],
    "an ending is forgotten before the watermark has passed it": [(CommandMemory, "spent", _spent_at_once)],
    "an id that comes again in the step of its delivery is not found": [(RowWrites, "write", _removed_last)],
    "a replacement has a bound of its own": [(Bound, "joined", _counts_anew)],
    "an older request that comes late does not count for a bound": [(BoundJoiner, "join", _unheard)],
    "a command lifts a bound": [(Entry, "within", _as_asked)],
    "jitter is added again to a forwarded request": [(forward, "decode", _spread_again)],
    "a watermark does not wait for other partitions": [(Watermark, "_move_on", _hasty)],
    "a partition fires before all controls are read": [(Controls, "read", _not_waited_for)],
    "a paused message is sent": [(RowFiring, "_waits", _never)],
    "a sent message does not count for its rate": [(Allowance, "spend", _uncounted)],
    "a message is removed before its destination has acknowledged it": [(Dispatcher, "_submit", _removal_first)],
    "an input's position is kept before the rows": [(Journal, "commit", _position_first)],
    "an arrived message is sent again": [(DestinationEnd, "find", _none_found)],
    "an arrived message is recognised by its id alone": [
        (of, what, make)
        for of in (arrival_search, destination_end)
        for what, make in (("copy_of", _by_id), ("content_of", _never))
    ],
    "a command does not wait until it is known whether its message has arrived": [
        (Partition, "expect", _unheard),
        (Partition, "settle", _claimed_when_known),
    ],
    "a partition fires before it has caught up": [(PartitionCatchUp, "wait", _caught_up_at_once)],
    "exactly once, the last owner is fenced after the changelog's end is read": [
        (TransactionalJournal, "fence", _nothing),
        (TransactionalJournal, "claim", _fence_last),
    ],
    "forwards that are committed and not readable yet are not waited for": [
        (PartitionReader, "written_end", _readable_end)
    ],
    "a record of a zombie is not corrected": [(Journal, "rewrite", _no_rewrite)],
    "a record of a zombie counts": [(StaleFilter, "accept", _no_epochs)],
    "exactly once, the local write comes before the commit": [(TransactionalJournal, "_append_step", _local_first)],
    "a transaction whose markers brokers have forgotten is not ended again": [(CompletedId, "settle", _nothing)],
    "a transaction whose markers brokers have forgotten ends as the next one does": [
        (transaction, "_STUCK_S", lambda _: None),
        (CompletedId, "_earlier", lambda _: lambda *_: frozenset()),
    ],
    "messages do not wait for records known to be unread": [
        (InputLag, "behind_s", _never_behind),
        (InputLag, "apart_s", _nobody_apart),
    ],
    "records that came while a partition caught up count as read": [(Partition, "go_live", _as_of_now)],
    "a broker that is gone is asked again and again": [(PartitionReader, "_look_for_leader", _asked_again)],
    "a row does not wait for its next attempt": [(HttpRows, "post", _forgets_tries)],
    "all retries with the headers of one series or delivery are one record": [(retry, "copy_source", _by_source)],
    "a message is delivered before its host has answered": [(Posts, "begin", _taken_first)],
    "a series ends with its first occurrence": [(occurrences, "following", _ended)],
    "an overdue series loses its missed occurrences when one is delivered now": [
        (of, "moved", _runs_from_then_on) for of in (moves, transitions)
    ],
    "a resumed series continues from the time at which the resume is read": [
        (of, "move", _when_read) for of in (commands, outcome_handler)
    ],
    "a resumed series is due as planned even if it was moved": [(moves, "_resumed", _planned_again)],
    "a pause skips by planned times, and not by due times": [(plan.Plan, "due_by", _by_plan)],
    "a series that is requested again loses the due occurrence": [(schedules, "continuation", _forgetful)],
    "a series that is requested again loses an occurrence whose delivery failed": [
        (outcome_handler, "give_back", _not_given_back)
    ],
    "a count does not count skipped occurrences": [(plan, "less", _counts_deliveries)],
    "the next occurrence is counted from the delivery": [(occurrences, "following", _drifting)],
    "a local time that was sent by other zone data comes again": [(occurrences, "planned_here", _forgetful)],
    "a series stays planned by the zone data of another worker": [(Replanning, "begin", _forgetful)],
    "zone data counts as that of all series while some are planned by other data": [
        (PartitionStore, "plan_by", _only_at_the_end)
    ],
    "the callbacks of a series have one name": [(occurrences, "source_of", _one_name)],
    "a callback that is not taken is forgotten": [(OutcomeHandler, "_uncalled", _given_up_at_once)],
    "a batch of an aborted transaction keeps its numbers": [(Batch, "renumber", _old_numbers)],
    "a changelog that has lost its head is restored silently": [(ChangelogGuard, "after", _nothing)],
    "a changelog that has lost its head is not written again": [(ChangelogGuard, "settle", _nothing)],
    "a changelog that was deleted takes its database with it": [
        (ChangelogGuard, "_apart", _restored_from_what_is_there),
        (ChangelogGuard, "after", _nothing),
    ],
    "a changelog that is being written again counts as whole": [(ChangelogGuard, "_mark", _wholly_written_at_once)],
    **planted_teams.BUGS,
}

#: The first seed for bugs that most runs do not show: a run that shows the bug, or one shortly before it.
BEGINS = {
    "an older request that comes late does not count for a bound": 37,
    "a changelog that is being written again counts as whole": 92,
    "a transaction whose markers brokers have forgotten is not ended again": 31,
    "a transaction whose markers brokers have forgotten ends as the next one does": 4_102_160,
    "messages do not wait for records known to be unread": 490,
    "records that came while a partition caught up count as read": 4_209_940,
    "a batch of an aborted transaction keeps its numbers": 158,
    "a command does not wait until it is known whether its message has arrived": 565,
    "a local time that was sent by other zone data comes again": 1_150,
    "a series stays planned by the zone data of another worker": 190,
    "a series that is requested again loses the due occurrence": 280,
    "a series that is requested again loses an occurrence whose delivery failed": 915,
    "a callback that is not taken is forgotten": 25,
    "an ending is forgotten before the watermark has passed it": 1_030,
    "an id that comes again in the step of its delivery is not found": 525,
    "a watermark does not wait for other partitions": 1_030,
    "exactly once, the last owner is fenced after the changelog's end is read": 235,
    "forwards that are committed and not readable yet are not waited for": 125,
    "the end of an id is forgotten": 105,
    "an arrived message is recognised by its id alone": 125,
    "an arrived message is sent again": 565,
    "a sent message does not count for its rate": 1_348,
    "a record of a zombie counts": 1_276,
    "a record of a zombie is not corrected": 180,
    "pending messages do not count for quotas": 305,
    "zone data counts as that of all series while some are planned by other data": 1_011_870,
    "a pause skips by planned times, and not by due times": 53,
    "a resumed series is due as planned even if it was moved": 45,
    "a resumed series continues from the time at which the resume is read": 29,
    "a row does not wait for its next attempt": 28,
    "a broker that is gone is asked again and again": 25,
    "an overdue series loses its missed occurrences when one is delivered now": 27,
    "an input's position is kept before the rows": 17,
    "the callbacks of a series have one name": 15,
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug during the block."""
    before = [getattr(of, what) for of, what, _ in BUGS[name]]
    for of, what, make in BUGS[name]:
        setattr(of, what, make(of.__dict__[what]))
    try:
        yield
    finally:
        for (of, what, _), was in zip(BUGS[name], before, strict=True):
            setattr(of, what, was)
