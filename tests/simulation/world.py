"""One run: a workload, workers, faults, and the result."""

import asyncio
import dataclasses
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tables.counts
import tables.database
import tables.expiring_index
import tables.foreign_writes
import tables.store
from app.engine.due import input_lag
from app.engine.ingest.ingest import Ingest
from app.engine.partition.partition import State
from app.engine.steps import outcome_handler
from app.engine.steps.command_memory import stamp_of
from app.engine.steps.step import Step
from punctual.contract.home import home_partition
from tables import Entry, PartitionStore, keys
from tables.entry import decode
from tests.simulation.broker import NODES, Broker
from tests.simulation.callbacks import call_back
from tests.simulation.controls import Said, controls, settings_of
from tests.simulation.disk import Disks
from tests.simulation.faults import Fault, Plan, away, behind, plan
from tests.simulation.group import Group
from tests.simulation.loop import EPOCH_MS, Loop, Process
from tests.simulation.mishaps import Mishaps
from tests.simulation.own_logs import OwnLogs
from tests.simulation.retries import settings_of_retries, stamped, with_retries
from tests.simulation.series import held, resent, series
from tests.simulation.teams import settings_of_teams, teams
from tests.simulation.web import Web
from tests.simulation.worker import EXPECTED, Worker
from tests.simulation.workload import LARGEST, Ask, Author
from tests.simulation.zones import Versions, in_zones, replacements

#: The margins of messages for unread input, in place of the real ones (app/engine/due/input_lag.py).
MARGIN_S, FORWARDS_MARGIN_S = 0.3, 0.15
#: A run that is not over by then is stuck.
_LATEST_S = 120.0
_LOOK_S = 0.1
#: Messages that are due within that time of the beginning are to be dealt with.
_SOON_MS = 3_600_000
#: The slot of the worker that reads everything again.
_LAST = "last"


@contextmanager
def simulated(disks: Disks, stamps: dict[str, set[int]], give_up_ms: int) -> Iterator[None]:
    """Put simulated disks where modules have the real ones; `stamps` get those of all orders.

    Messages for URLs are given up after `give_up_ms`.
    """
    stores = (tables.store, tables.counts, tables.database, tables.expiring_index, tables.foreign_writes)
    replaced: list[tuple[Any, str, Any]] = [(module, "rocksdict", disks) for module in stores]
    replaced += [(tables.store, "shutil", disks), (tables.store, "rocksdb_options", lambda: None)]
    # Messages wait for less than they would for real brokers: runs are short.
    replaced += [(input_lag, "MARGIN_S", MARGIN_S), (input_lag, "FORWARDS_MARGIN_S", FORWARDS_MARGIN_S)]
    replaced.append((outcome_handler, "HTTP_GIVE_UP_MS", give_up_ms))
    replaced += replacements()
    replaced.append((Ingest, "_route", noting(Ingest._route, stamps)))
    replaced.append((Step, "put_plain", noting_plain(Step.put_plain, stamps)))
    before = [module.__dict__[name] for module, name, _ in replaced]
    for module, name, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(replaced, before, strict=True):
            setattr(module, name, value)


def noting(route: Any, stamps: dict[str, set[int]]) -> Any:
    """Return what routes requests as before, and notes their stamps."""

    def _route(self: Ingest, step: Any, record: Any, asked: Any, partitions_of: Any) -> None:
        stamps[asked.source].add(stamp_of(asked).stamp_ms)
        route(self, step, record, asked, partitions_of)

    return _route


def noting_plain(put_plain: Any, stamps: dict[str, set[int]]) -> Any:
    """Return what puts the rows of requests that the kernel has taken as before, and notes their stamps."""

    def _put_plain(self: Step, ids: Any, keys: Any, raws: Any, size: int) -> None:
        for entry in map(decode, raws):
            stamps[entry.source].add(entry.stamp_ms)
        put_plain(self, ids, keys, raws, size)

    return _put_plain


class World:
    """Brokers, workers, disks and users of one run."""

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        """Make up the run of a seed."""
        self.seed = seed
        rnd = random.Random(seed)  # noqa: S311 - the same run for the same seed
        self.plan: Plan = plan(rnd)
        self.plan.faults = sorted(self.plan.faults + away(seed, self.plan.span_s), key=lambda fault: fault.at_s)
        self.plan.behind_s = behind(seed, self.plan)
        self.loop, self.disks = Loop(), Disks()
        self.web = Web(seed, self.loop)
        self.destinations = {"orders": rnd.randint(1, 3), "payments": rnd.randint(1, 2)}
        self.settings = settings_of(
            {**self.plan.env, **settings_of_retries(seed), **self.web.env, **settings_of_teams(seed)},
            seed,
            self.destinations,
        )
        accepts = (f"recreated:{self.settings.topics.changelog}",)
        engine = dataclasses.replace(self.settings.engine, accept_loss=accepts)
        self.settings = dataclasses.replace(self.settings, engine=engine)
        self.controls = controls(seed, self.plan.span_s, self.destinations)
        self.exact = self.settings.engine.guarantee == "exactly_once"
        asks = Author(rnd, self.settings, self.plan, self.destinations, self.web).write()
        self.asks: list[Ask] = with_retries(asks, seed, self.settings, self.plan.span_s, self.destinations)
        self.asks += series(seed, self.settings, self.plan.span_s, self.destinations)
        self.versions = Versions(seed, self.settings)
        self.asks += in_zones(self.versions, self.settings, self.plan.span_s, self.destinations)
        self.asks += held(seed, self.settings, self.plan.span_s, self.destinations)
        self.asks += resent(seed, self.settings, self.plan, self.destinations)
        self.asks += teams(seed, self.settings, self.plan.span_s, self.destinations)
        call_back(self.asks, seed, self.web)
        self.asks.sort(key=lambda ask: ask.at_s)
        self.process = Process("world")
        self.broker = Broker(self.loop, seed, self.process)
        if trace:
            self.broker.trace = []
        self.group = Group(self.loop, rnd, self.broker, self.settings.topics.partitions)
        self.group.session_s = self.plan.session_s
        self.workers: list[Worker] = []
        #: The worker of each slot, None between two lives; and what its next end is to mean for its disk.
        self.slots: dict[str, Worker | None] = {}
        self.fates: dict[str, Fault] = {}
        self.troubles: list[str] = []
        self.crashes = 0
        self._calm = self._ending = self.over = False
        #: What each order was taken to have been given at; several, if it was read again after a crash.
        self.stamps: dict[str, set[int]] = defaultdict(set)

    # the run ---------------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Run to the end.

        Raises Stuck if it does not come to one.
        """
        random.seed(self.seed)
        self.loop.run(self._run(), self.process, _LATEST_S)
        self.troubles += [f"an unexpected error: {error!r}" for error in self.loop.errors]

    def run_on(self) -> None:
        """Lose the changelog when all is over, in some runs, and have workers start again.

        Raises Stuck if that does not come to an end.
        """
        own_logs = OwnLogs(self)
        if self.over and own_logs.happens and not self.troubles:
            self.loop.run(own_logs.lose(), self.process, 2 * _LATEST_S)
            self.troubles += [f"an unexpected error: {error!r}" for error in self.loop.errors]

    async def _run(self) -> None:
        self._set_up()
        mishaps = Mishaps(self)
        self.loop.create_task(self.group.watch())
        for number in range(self.plan.workers):
            self.start(f"w{number}")
        for ask in self.asks:
            self.loop.call_at(ask.at_s, self._send, ask)
        for said in self.controls:
            self.loop.call_at(said.at_s, self._say, said)
        for fault in self.plan.faults:
            self.loop.call_at(fault.at_s, mishaps.happen, fault)
        await asyncio.sleep(max(self.plan.span_s + 0.5, self.asks[-1].at_s + 0.1))
        self._calm = True
        mishaps.cease()
        self.web.calm = True
        for slot in list(self.slots):
            self.start_again(slot)
        await self.settled()
        rows = self.rows()
        await self._begin_anew()
        if self.settings.engine.row_version in (1, 2) and self.web.posts:
            return  # such rows have no time of the next try, so it is made then
        if self.delivered_by(_LAST):
            self.troubles.append("a worker that read everything again has repeated settled deliveries")
        if self.rows() != rows:
            self.troubles.append("a worker that read everything again has other rows")
        self.over = True

    def _set_up(self) -> None:
        settings, broker = self.settings, self.broker
        for topic in (
            *settings.topics.inputs,
            settings.topics.forwards,
            settings.topics.changelog,
            settings.topics.events_topic,
        ):
            broker.create(topic, settings.topics.partitions)
        broker.create(settings.topics.dead_letters, settings.topics.partitions)
        broker.create(settings.topics.progress, 1)
        broker.create(settings.topics.controls, 1)
        for topic, count in self.destinations.items():
            broker.create(topic, count, append_time=False)
            broker.largest[topic] = LARGEST
        broker.network.weather, broker.network.haunting = self.plan.weather, self.plan.haunting
        broker.coordinator.slowest_s = self.plan.slowest_marker_s

    def _send(self, ask: Ask) -> None:
        """Have a user send a record."""
        log = self.broker.logs[ask.input or self.settings.topics.requests][ask.partition]
        leader = self.broker.leaders[log.topic, log.partition]
        stamp_ms = self.broker.now_ms() + self.plan.brokers_ms[NODES.index(leader)]
        ask.topic, ask.offset, ask.stamp_ms = log.topic, log.end, stamp_ms
        log.append(ask.batch(ask.stamp_ms), ask.stamp_ms, None)
        stamped(ask)

    def _say(self, said: Said) -> None:
        """Have an operator write a control record."""
        self.broker.note(f"control: {said}")
        self.broker.logs[self.settings.topics.controls][0].append(said.batch(), self.broker.now_ms(), None)

    # workers ---------------------------------------------------------------------------------------------------------
    def start(self, slot: str) -> None:
        """Start a worker in a slot."""
        life = len(self.workers) + 1
        shift = self.plan.shifts_ms[life % len(self.plan.shifts_ms)]
        worker = Worker(slot, life, self.loop, self.broker, self.settings, shift, self.seed, self._ended)
        worker.batch = self.plan.batch
        worker.web, worker.process.zone_s = self.web, self.versions.of(life)
        self.workers.append(worker)
        self.slots[slot] = worker

        async def begin() -> None:
            await worker.start()
            self.loop.call_soon(self._begun, worker, context=self.process.context)

        worker.spawn(begin())

    def start_again(self, slot: str) -> None:
        """Start a worker in a slot whose last one has ended."""
        if not self._ending and self.slots.get(slot, self) is None:
            self.start(slot)

    async def stop(self, worker: Worker) -> bool:
        """Stop a worker in order; return whether it came to that."""
        task = worker.spawn(worker.stop())
        while worker.process.alive and not task.done():  # noqa: ASYNC110 - it may die
            await asyncio.sleep(0.02)
        if self.slots.get(worker.slot) is not worker:
            return False  # it died, and its death starts it again
        self.slots[worker.slot] = None
        self.disks.unlock(worker.slot)
        self.group.leave(worker)
        return True

    def _begun(self, worker: Worker) -> None:
        if worker.process.alive:
            worker.consumer.forwards_lag_s = 0.0 if self._calm else self.plan.behind_s
            self.group.begin(worker)

    def _ended(self, worker: Worker, error: BaseException | None) -> None:
        """Hear of a worker's end: its disk has its fate, its supervisor starts it again."""
        self.crashes += 1
        self.broker.note(f"{worker.name} is no more: {error!r}")
        if error is not None and not isinstance(error, EXPECTED):
            self.troubles.append(f"{worker.name} ends: {error!r}")
        self.disks.unlock(worker.slot)
        fate, again_s = self.fates.pop(worker.slot, None), 0.2
        if fate is not None:
            again_s = fate.lasts_s
            if fate.disk == "wiped":
                self.disks.wipe(worker.slot)
            elif fate.disk == "short":
                self.disks.lose(worker.slot, fate.number % 8)
            elif fate.disk == "old":
                self.disks.rewind(worker.slot, fate.number / 100)
        if self.slots.get(worker.slot) is worker:
            self.slots[worker.slot] = None
            after_s = 0.05 if self._calm else again_s
            self.loop.call_later(after_s, self.start_again, worker.slot, context=self.process.context)

    # the end ---------------------------------------------------------------------------------------------------------
    async def _begin_anew(self) -> None:
        """End all workers, and have one on an empty disk take over."""
        self._ending = True  # a restart that began earlier must not start a worker again
        for worker in [worker for worker in self.slots.values() if worker is not None]:
            if self.plan.orderly and worker.ready:
                await self.stop(worker)
            elif worker.process.alive:
                self.slots[worker.slot] = None
                worker.end()
        self.slots.clear()
        self._ending = False
        self.start(_LAST)
        await self.settled()

    async def settled(self) -> None:
        """Wait until no partition has work left."""
        while not self.troubles and (len(self.owned()) < self.settings.topics.partitions or self._transacting()):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)

    def owned(self) -> dict[int, PartitionStore]:
        """Return the store of each partition that is owned, live, and idle."""
        found = {}
        for worker in self.group.members.values():
            if worker.process.alive and worker.ready:
                for number, partition in worker.ownership.partitions.items():
                    if partition.state is State.LIVE and self._quiet(worker, number):
                        found[number] = worker.table.stores[number]
        return found

    def _quiet(self, worker: Worker, number: int) -> bool:
        partition, store = worker.ownership.partitions[number], worker.table.stores[number]
        if partition.claims or not partition.idle or not partition.in_flight.quiet or store.foreign.keys:
            return False
        for topic in (*self.settings.topics.inputs, self.settings.topics.forwards):
            position = store.positions.get(topic)
            last = max((batch.end for batch in self.broker.logs[topic][number].committed()), default=0)
            if last and (position is None or position.offset < last):
                return False
        following = store.next_row(b"")
        return following is None or keys.due_of(following) > EPOCH_MS + _SOON_MS

    def _transacting(self) -> bool:
        return any(log.ongoing for logs in self.broker.logs.values() for log in logs)

    def rows(self) -> dict[int, dict[bytes, Entry]]:
        return {number: dict(store.rows()) for number, store in self.owned().items()}

    def delivered_by(self, slot: str) -> bool:
        """Return whether the workers of a slot have written to the destinations.

        Others may still write when all messages are done: at least once, a zombie that has just woken up sends its
        claimed messages before it learns of its end. Other checks bound the number of such duplicates.
        """
        names = {worker.name for worker in self.workers if worker.slot == slot}
        logs = (log for topic in self.destinations for log in self.broker.logs[topic])
        return any(post.sent.worker in names for post in self.web.posts) or any(
            batch.sent is not None and batch.sent.worker in names for log in logs for batch in log.batches
        )

    # for the checks --------------------------------------------------------------------------------------------------
    def home(self, ask: Ask) -> int:
        """Return the partition where a message lives."""
        if ask.id is None:
            return ask.partition
        return home_partition(ask.id, self.settings.topics.inputs, self.settings.topics.partitions)

    def scratch(self) -> PartitionStore:
        """Return an empty store."""
        return PartitionStore(Path("scratch.db"))
