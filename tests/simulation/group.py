"""The consumer group: the owner of each partition, and members that have been silent for too long."""

import asyncio
import random

from tests.simulation.broker import Broker
from tests.simulation.loop import Loop
from tests.simulation.worker import Worker

_HEARTBEAT_S = 0.25


class Group:
    """Assigns partitions in generations, as an eager assignor does: all give back, then all get."""

    def __init__(self, loop: Loop, rnd: random.Random, broker: Broker, partitions: int) -> None:
        """Have no members."""
        self._loop, self._rnd, self._broker, self._partitions = loop, rnd, broker, partitions
        self.generation = 0
        self.members: dict[str, Worker] = {}
        self._given: dict[str, list[int]] = {}
        self._silent: dict[str, float] = {}
        self._moving = self._again = False
        #: How long a member may be silent, and how long the others wait for one in a rebalance.
        self.session_s, self.patience_s = 1.5, 4.0
        #: Workers that run, in the group or not.
        self.running: dict[str, Worker] = {}

    # -----------------------------------------------------------------------------------------------------------------
    def begin(self, worker: Worker) -> None:
        """Take in a worker that has just started; a worker that comes back in time gets its slot's partitions."""
        self.running[worker.slot] = worker
        if worker.slot in self.members and not self._moving:
            self.members[worker.slot] = worker
            self._silent.pop(worker.slot, None)
            worker.spawn(worker.assign(self._given.get(worker.slot, []), self.generation))
        else:
            self.members[worker.slot] = worker
            self.rebalance()

    def leave(self, worker: Worker) -> None:
        """Hear of a worker that has stopped in order."""
        if self.running.get(worker.slot) is worker:
            del self.running[worker.slot]
        if self.members.get(worker.slot) is worker:
            del self.members[worker.slot]
            self.rebalance()

    def rebalance(self) -> None:
        """Assign the partitions again."""
        if self._moving:
            self._again = True
        else:
            self._moving = True
            self._loop.create_task(self._rebalance())

    async def watch(self) -> None:
        """Remove silent members, and take removed ones in again when they can be reached."""
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            now = self._loop.time()
            for slot, worker in list(self.members.items()):
                if self._heard(worker):
                    self._silent.pop(slot, None)
                elif now - self._silent.setdefault(slot, now) > self.session_s and not self._moving:
                    self.rebalance()
            for slot, worker in self.running.items():
                if slot not in self.members and self._heard(worker):
                    self.members[slot] = worker
                    self.rebalance()

    @staticmethod
    def _heard(worker: Worker) -> bool:
        process = worker.process
        return process.alive and not process.frozen and worker.reachable and worker.ready

    async def _rebalance(self) -> None:
        try:
            again = True
            while again:
                self._again = False
                await self._assign()
                again = self._again
        finally:
            self._moving = False

    async def _assign(self) -> None:
        self.generation += 1
        asked = {worker: worker.spawn(worker.revoke()) for worker in self.members.values() if self._heard(worker)}
        until = self._loop.time() + self.patience_s
        while self._loop.time() < until and any(w.process.alive and not t.done() for w, t in asked.items()):  # noqa: ASYNC110 - they may die
            await asyncio.sleep(0.01)
        joined = [worker for worker, task in asked.items() if task.done() and self._heard(worker)]
        for slot, worker in list(self.members.items()):
            if (worker not in joined and worker in asked) or not self._heard(worker):
                worker.outlived = True
                del self.members[slot]
                self._silent.pop(slot, None)
        numbers = list(range(self._partitions))
        self._rnd.shuffle(numbers)
        self._given = {worker.slot: numbers[turn :: len(joined)] for turn, worker in enumerate(joined)}
        self._broker.note(f"generation {self.generation}: {self._given}")
        for worker in joined:
            given = self._given[worker.slot]
            self._loop.call_later(self._rnd.uniform(0, 0.03), self._give, worker, given, self.generation)

    def _give(self, worker: Worker, numbers: list[int], generation: int) -> None:
        if worker.process.alive and generation == self.generation:
            worker.spawn(worker.assign(numbers, generation))
