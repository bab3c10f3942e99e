"""Deliveries that are to be part of a step: exactly once, they are in its transaction."""

from collections import deque
from collections.abc import Callable

from app.engine.steps.delivery import Delivery
from app.engine.steps.route import Route
from app.engine.steps.step import STEP_BYTES, Step
from app.kafka.transactions.transaction import Untaken

#: Bytes in a step to remove a row and remember its delivery, with its source; its id, three times, comes on top.
_ROW_BYTES = 225
#: Rows that were chosen this long ago and are in no transaction are chosen again: a command may have come since.
_CHOSEN_S = 3.0


class StepDeliveries:
    """Deliveries that wait for a step, in the order in which they are to be sent."""

    def __init__(self) -> None:
        """Begin without deliveries."""
        self._queue: deque[Delivery] = deque()
        #: The last delivery of each route, which takes more rows.
        self._open: dict[Route, Delivery] = {}
        #: Whether the last step had no room for deliveries: the next step is left to them.
        self.crowded_out = False

    def __bool__(self) -> bool:
        """Return whether any delivery waits."""
        return bool(self._queue)

    def clear(self) -> None:
        """Remove all deliveries."""
        self._queue.clear()
        self._open.clear()
        self.crowded_out = False

    def add(self, delivery: Delivery, *, first: bool = False) -> None:
        """Let a delivery wait for a step; with `first`, before all others."""
        if first:
            self._queue.appendleft(delivery)
        else:
            self._queue.append(delivery)
            self._open[delivery.route] = delivery

    def open(self, route: Route) -> Delivery | None:
        """Return the last waiting delivery for a route, which takes more rows, or None."""
        return self._open.get(route)

    def put_into(self, step: Step, now_ms: int) -> None:
        """Move deliveries, sent at `now_ms`, into a step while it has room for the removal of their rows."""
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
        """Return whether a waiting delivery was chosen too long before `now_s`, a time of the event loop."""
        return bool(self._queue) and now_s - min(delivery.chosen_s for delivery in self._queue) > _CHOSEN_S

    def withdraw(self, held_back: Callable[[Route], bool]) -> list[Delivery]:
        """Remove and return the waiting deliveries on routes that are `held_back`."""
        withdrawn = [delivery for delivery in self._queue if held_back(delivery.route)]
        for delivery in withdrawn:
            self._queue.remove(delivery)
            self._open.pop(delivery.route, None)
        return withdrawn

    def take_back(self, step: Step, untaken: Untaken) -> None:
        """Take the deliveries out of a step whose transaction was aborted because of `untaken`.

        Deliveries that `untaken` strikes end or release their rows. The others go first in the queue again.
        """
        deliveries = [*step.deliveries, *self._queue]  # later deliveries must not overtake repeated ones
        step.deliveries = ()
        self.clear()
        for delivery in deliveries:
            delivery.failed(untaken)
        for delivery in reversed(deliveries):
            if delivery.struck(untaken):
                delivery.untaken(untaken)
            else:
                self.add(delivery, first=True)
