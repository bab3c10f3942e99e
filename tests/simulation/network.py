"""Connections between workers and brokers: requests of one go in order, take their time, and get lost."""

import random
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiokafka.errors as kafka

from tests.simulation.log import Sent
from tests.simulation.loop import Loop, Process

if TYPE_CHECKING:
    import asyncio

#: A broker: takes a request, gives the answer and the seconds that it holds it back; None is no answer at all.
Serve = Callable[[int, Any, Sent, random.Random], tuple[Any, float]]


@dataclass(slots=True, frozen=True)
class Weather:
    """How bad the network is: chances of each request."""

    lost: float = 0.0
    unanswered: float = 0.0
    slow: float = 0.0
    error: float = 0.0
    fast_s: float = 0.002
    slowest_s: float = 0.6
    #: How long a client waits for an answer that does not come.
    timeout_s: float = 3.0


CALM = Weather()


class Pending:
    """A request on its way."""

    __slots__ = ("answer", "arrived", "request", "sent")

    def __init__(self, request: Any, answer: "asyncio.Future[Any]", sent: Sent) -> None:
        """Begin with a request that has not arrived."""
        self.request, self.answer, self.sent = request, answer, sent
        self.arrived = False


class Connection:
    """One connection: a broker takes its requests one after the other."""

    def __init__(self, network: "Network", worker: str, node: int, rnd: random.Random) -> None:
        """Connect a worker to a broker."""
        self._network, self._worker, self._node, self._rnd = network, worker, node, rnd
        self._pending: deque[Pending] = deque()
        self._queue: deque[Pending] = deque()
        self._busy = self.broken = False
        #: Whether the node's machine has been down since the connection began. The client has not noticed it yet.
        self.stale = False
        self._latest = self._answered = 0.0

    def send(self, request: Any, answer: "asyncio.Future[Any]", sent: Sent) -> None:
        """Send a request; its response resolves `answer`."""
        network, weather = self._network, self._network.weather
        pending = Pending(request, answer, sent)
        self._pending.append(pending)
        at = self._latest = max(self._latest, network.loop.time() + self._latency(weather))
        lost = weather.lost > 0 and self._rnd.random() < weather.lost
        network.loop.call_at(at, self._break if lost else self._arrive, pending, context=network.context)

    def _latency(self, weather: Weather) -> float:
        rnd = self._rnd
        if weather.slow and rnd.random() < weather.slow:
            return rnd.uniform(0.01, weather.slowest_s)
        return rnd.uniform(0.0002, weather.fast_s)

    def _arrive(self, pending: Pending) -> None:
        network = self._network
        pending.arrived = True
        if self._node in network.silent:
            self._time_out(pending)
        elif self._node in network.down or self.stale:
            self._break(pending)
        elif self._busy:
            self._queue.append(pending)
        else:
            self._serve(pending)

    def _serve(self, pending: Pending) -> None:
        network = self._network
        found, hold_s = network.serve(self._node, pending.request, pending.sent, self._rnd)
        if hold_s:
            self._busy = True
            network.loop.call_later(hold_s, self._served, pending, found, context=network.context)
        else:
            self._answer(pending, found)

    def _served(self, pending: Pending, found: Any) -> None:
        """Answer a request that was held back, then serve the next one."""
        self._busy = False
        if callable(found):
            found = found()
        self._answer(pending, found)
        while self._queue and not self._busy:
            self._serve(self._queue.popleft())

    def _answer(self, pending: Pending, found: Any) -> None:
        if self.broken:
            return
        network, weather = self._network, self._network.weather
        if self.stale:
            self._time_out(pending)
        elif weather.unanswered and self._rnd.random() < weather.unanswered:
            late_s = weather.timeout_s if self._rnd.random() < 0.2 else self._rnd.uniform(0, 0.3)
            network.loop.call_later(late_s, self._break, pending, context=network.context)
        else:
            at = self._answered = max(self._answered, network.loop.time() + self._latency(weather))
            network.loop.call_at(at, self._deliver, pending, found, context=network.context)

    def _deliver(self, pending: Pending, found: Any) -> None:
        if not self.broken:
            self._pending.remove(pending)
            if not pending.answer.done():
                pending.answer.set_result(found)

    def _time_out(self, pending: Pending) -> None:
        """Lose the connection when the client gives up waiting for an answer."""
        network = self._network
        network.loop.call_later(network.weather.timeout_s, self._break, pending, context=network.context)

    def _break(self, _: Pending) -> None:
        self.end()

    def end(self) -> None:
        """Lose the connection: requests under way are lost, or arrive late at a broker that cannot answer any more."""
        if self.broken:
            return
        self.broken = True
        network = self._network
        network.losing[self._worker](self._node)
        for pending in self._pending:
            if not pending.arrived and self._rnd.random() < network.haunting:
                late_s = self._rnd.uniform(0, 1.0)
                pending.arrived = True
                network.loop.call_later(late_s, self._haunt, pending, context=network.context)
            if not pending.answer.done():
                pending.answer.set_exception(kafka.KafkaConnectionError("simulated"))
        self._pending.clear()

    def _haunt(self, pending: Pending) -> None:
        if self._node not in self._network.down:
            self._network.serve(self._node, pending.request, pending.sent, self._rnd)


class Network:
    """The connections of all workers."""

    def __init__(self, loop: Loop, seed: int, serve: Serve, world: Process) -> None:
        """Reach brokers through `serve`."""
        self.loop, self._seed, self.serve, self.context = loop, seed, serve, world.context
        self.weather = CALM
        #: Nodes that do not answer, and the chance that a request outlives its connection.
        self.down: set[int] = set()
        #: The nodes in `down` whose machine is down: clients wait for an answer until they time out.
        self.silent: set[int] = set()
        self.haunting = 0.0
        #: Who hears that a worker has lost a connection to a node.
        self.losing: dict[str, Callable[[int], None]] = {}
        self._connections: dict[tuple[str, int, Hashable], Connection] = {}
        self._made = 0

    def disconnect(self, node: int) -> None:
        """End all connections to a node that goes down."""
        for (_, to, _), connection in list(self._connections.items()):
            if to == node:
                connection.end()

    def cut(self, node: int) -> None:
        """End all connections to a node whose machine goes down, without a word to their clients."""
        self.silent.add(node)
        for (_, to, _), connection in self._connections.items():
            if to == node:
                connection.stale = True

    def connection(self, worker: str, node: int, group: Hashable) -> Connection:
        """Return the connection of a worker's kind of requests to a node."""
        found = self._connections.get((worker, node, group))
        if found is None or found.broken:
            # A generator of its own, so that what happens on one does not depend on the order of requests on others.
            self._made += 1
            rnd = random.Random(f"{self._seed}-{worker}-{node}-{group}-{self._made}")  # noqa: S311
            found = self._connections[worker, node, group] = Connection(self, worker, node, rnd)
        return found
