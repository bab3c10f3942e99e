"""Makes the faults of a plan happen, and has them end."""

import asyncio
from typing import TYPE_CHECKING

from tests.simulation.broker import NODES
from tests.simulation.faults import Fault, refusal
from tests.simulation.network import CALM

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.coordinator import TopicPartition
    from tests.simulation.worker import Worker
    from tests.simulation.world import World

_JUMPS_MS = (300, -300, 700, -700, 3_600_000, -3_600_000)
_MOST_WORKERS = 3
_FAST_S = 0.01
#: Of this number of brokers that go down, one does not close its connections.
_SILENT = 4


class Mishaps:
    """Applies the faults of a plan to a world."""

    def __init__(self, world: "World") -> None:
        """Prepare a handler for each kind of fault."""
        self._world, self._loop, self._broker = world, world.loop, world.broker
        self._places: list[TopicPartition] = [
            (topic, number) for topic, count in world.destinations.items() for number in range(count)
        ]
        self._to_workers: dict[str, Callable[[Fault, Worker], None]] = {
            "crash": self._crash,
            "crash at a point": self._crash_at_a_point,
            "crash after some steps": self._crash_after_some_steps,
            "freeze": self._freeze,
            "zombie": self._haunt,
            "cut off": self._cut_off,
            "restart": self._restart,
            "clock": self._jump,
            "lag": self._lag,
        }
        self._to_all: dict[str, Callable[[Fault], None]] = {
            "rebalance": lambda _: self._world.group.rebalance(),
            "one more worker": self._join,
            "refuse": self._refuse,
            "hold": self._hold,
            "node down": self._go_down,
            "node away": self._go_away,
            "leader": self._move,
            "load": self._load,
        }

    def happen(self, fault: Fault) -> None:
        """Apply a fault."""
        self._broker.note(f"fault: {fault}")
        if fault.kind in self._to_all:
            self._to_all[fault.kind](fault)
            return
        living = [worker for worker in self._world.slots.values() if worker is not None and worker.ready]
        if living:
            self._to_workers[fault.kind](fault, living[fault.worker % len(living)])

    def cease(self) -> None:
        """End all faults."""
        network = self._broker.network
        network.weather, network.haunting = CALM, 0.0
        network.down &= self._broker.gone
        network.silent.clear()
        self._broker.refusing.clear()
        self._broker.holding.clear()
        self._broker.loading.clear()
        for worker in self._world.workers:
            worker.reachable, worker.points, worker.process.fuse = True, 0, 0
            if worker.ready:
                worker.consumer.lag_s, worker.consumer.forwards_lag_s = _FAST_S, 0.0
            worker.clock.mend()
            self._loop.thaw(worker.process)

    # workers ---------------------------------------------------------------------------------------------------------
    def _crash(self, fault: Fault, worker: "Worker") -> None:
        self._world.fates[worker.slot] = fault
        worker.end()

    def _crash_at_a_point(self, fault: Fault, worker: "Worker") -> None:
        self._world.fates[worker.slot] = fault
        worker.points = fault.number

    def _crash_after_some_steps(self, fault: Fault, worker: "Worker") -> None:
        self._world.fates[worker.slot] = fault
        worker.process.on_fuse = worker.end
        worker.process.fuse = fault.number * 20

    def _freeze(self, fault: Fault, worker: "Worker") -> None:
        worker.process.frozen = True
        self._loop.call_later(fault.lasts_s, self._loop.thaw, worker.process)

    def _haunt(self, fault: Fault, worker: "Worker") -> None:
        """Freeze a worker in the midst of its work until others have its partitions, and end those when it goes on."""
        worker.process.on_fuse = lambda: self._freeze_long(fault, worker)
        worker.process.fuse = fault.number

    def _freeze_long(self, fault: Fault, worker: "Worker") -> None:
        worker.process.frozen = True
        after_s = self._world.plan.session_s + fault.lasts_s
        self._loop.call_later(after_s, self._loop.thaw, worker.process, context=self._world.process.context)
        for other in self._world.slots.values():
            if other not in (None, worker) and fault.number % 3:
                late_s = after_s + (fault.number % 8) * 0.004
                self._loop.call_later(late_s, self._end, fault, other, context=self._world.process.context)

    def _end(self, fault: Fault, worker: "Worker") -> None:
        if worker.process.alive and worker.ready:
            self._crash(fault, worker)

    def _cut_off(self, fault: Fault, worker: "Worker") -> None:
        worker.reachable = False
        session_s = self._world.plan.session_s
        self._loop.call_later(fault.lasts_s + session_s, setattr, worker, "reachable", True)  # noqa: FBT003 - setattr

    def _restart(self, fault: Fault, worker: "Worker") -> None:
        self._loop.create_task(self._stop_and_start(worker, fault.lasts_s))

    async def _stop_and_start(self, worker: "Worker", after_s: float) -> None:
        if await self._world.stop(worker):
            await asyncio.sleep(after_s)
            self._world.start_again(worker.slot)

    def _jump(self, fault: Fault, worker: "Worker") -> None:
        worker.clock.jump(worker.clock.shift_ms + _JUMPS_MS[fault.number % len(_JUMPS_MS)])
        self._loop.call_later(fault.lasts_s, worker.clock.mend)

    def _lag(self, fault: Fault, worker: "Worker") -> None:
        worker.consumer.lag_s = fault.lasts_s
        self._loop.call_later(fault.lasts_s, setattr, worker.consumer, "lag_s", _FAST_S)

    def _join(self, _: Fault) -> None:
        if len(self._world.slots) < _MOST_WORKERS:
            self._world.start(f"w{len(self._world.slots)}")

    # brokers ---------------------------------------------------------------------------------------------------------
    def _refuse(self, fault: Fault) -> None:
        place, refusing = self._places[fault.number % len(self._places)], self._broker.refusing
        refusing[place] = refusal(fault)
        self._loop.call_later(fault.lasts_s, refusing.pop, place, None)

    def _hold(self, fault: Fault) -> None:
        place, holding = self._places[fault.number % len(self._places)], self._broker.holding
        holding[place] = fault.lasts_s / 2
        self._loop.call_later(fault.lasts_s, holding.pop, place, None)

    def _go_down(self, fault: Fault) -> None:
        node, down = NODES[fault.number % len(NODES)], self._broker.network.down
        down.add(node)
        if fault.number % _SILENT == 2:
            self._broker.network.cut(node)
        else:
            self._broker.network.disconnect(node)
        self._loop.call_later(fault.lasts_s / 2, self._come_back, node)

    def _come_back(self, node: int) -> None:
        if node not in self._broker.gone:
            self._broker.network.down.discard(node)
            self._broker.network.silent.discard(node)

    def _go_away(self, fault: Fault) -> None:
        """Remove the broker that coordinates no transactions for good; the other one leads all partitions a moment
        later."""
        node, network = NODES[-1], self._broker.network
        self._broker.gone.add(node)
        network.down.add(node)
        network.disconnect(node)
        self._loop.call_later(fault.lasts_s, self._lead_all, NODES[0])

    def _lead_all(self, node: int) -> None:
        for place in self._broker.leaders:
            self._broker.leaders[place] = node

    def _move(self, fault: Fault) -> None:
        """Move the leaders of every other partition, or of every third."""
        if self._broker.gone:
            return
        leaders = self._broker.leaders
        for place in list(leaders)[fault.number % 2 :: 2 + fault.number % 3]:
            leaders[place] = NODES[NODES.index(leaders[place]) - 1]

    def _load(self, fault: Fault) -> None:
        """Have the coordinators of some transactional ids read their logs."""
        loading, number = self._broker.loading, fault.number
        loading.add(number)
        self._loop.call_later(fault.lasts_s, loading.discard, number)
