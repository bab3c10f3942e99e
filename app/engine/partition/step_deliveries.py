"""Deliveries that are to be part of a step: exactly once, they are in its transaction."""

from collections import deque
from collections.abc import Callable

from app.engine.steps.delivery import Delivery
from app.engine.steps.route import Route
from app.engine.steps.step import STEP_BYTES, Step
from app.kafka.transactions.transaction import Untaken

#: What it takes to remove a row and to remember its delivery, with the name of its source, beside its id, three times.
_ROW_BYTES = 225
#: Rows that were chosen so long ago and are in no transaction are chosen again: a command may have come since.
_CHOSEN_S = 3.0


class StepDeliveries:
    """Deliveries that wait for a step, in the order in which they are to be sent."""

    def __init__(self) -> None:
        """Have none."""
        self._queue: deque[Delivery] = deque()
        #: The last one of each route: it takes more rows.
        self._open: dict[Route, Delivery] = {}
        #: Whether the last step had no room for any: the next one is theirs.
        self.crowded_out = False

    def __bool__(self) -> bool:
        """Return whether any waits."""
        return bool(self._queue)

    def clear(self) -> None:
        """Forget all of them."""
        self._queue.clear()
        self._open.clear()
        self.crowded_out = False

    def add(self, delivery: Delivery, *, first: bool = False) -> None:
        """Let a delivery wait for a step, `first` before those that wait."""
        if first:
            self._queue.appendleft(delivery)
        else:
            self._queue.append(delivery)
            self._open[delivery.route] = delivery

    def open(self, route: Route) -> Delivery | None:
        """Return the last delivery for a route that waits for a step: it takes more rows until then."""
        return self._open.get(route)

    def put_into(self, step: Step, now_ms: int) -> None:
        """Add deliveries, sent `now_ms`, to a step, as far as it has room for what ends their rows."""
        deliveries, size = list[Delivery](), step.size
        self.crowded_out = bool(self._queue) and size >= STEP_BYTES
        if self.crowded_out:
            return
        while self._queue and size < STEP_BYTES:
            delivery = self._queue.popleft()
            delivery.sent_ms = now_ms
            if self._open.get(delivery.route) is delivery:
                del self._open[delivery.route]
            deliveries.append(delivery)
            size += _ROW_BYTES * delivery.batch.count + 3 * delivery.id_bytes + delivery.following
        step.deliveries = deliveries

    def outdated(self, now_s: float) -> bool:
        """Return whether it is long since a delivery that waits was chosen, at a time of the event loop."""
        return bool(self._queue) and now_s - min(delivery.chosen_s for delivery in self._queue) > _CHOSEN_S

    def withdraw(self, held_back: Callable[[Route], bool]) -> list[Delivery]:
        """Take out the deliveries that wait for a step on routes that are to be held back, and return them."""
        found = [delivery for delivery in self._queue if held_back(delivery.route)]
        for delivery in found:
            self._queue.remove(delivery)
            self._open.pop(delivery.route, None)
        return found

    def take_back(self, step: Step, untaken: Untaken) -> None:
        """Take deliveries out of a step whose transaction was aborted: those that are not to blame come next."""
        deliveries = [*step.deliveries, *self._queue]  # what came meanwhile must not overtake what is tried again
        step.deliveries = ()
        self.clear()
        for delivery in deliveries:
            delivery.failed(untaken)
        for delivery in reversed(deliveries):
            if delivery.struck(untaken):
                delivery.untaken(untaken)
            else:
                self.add(delivery, first=True)
