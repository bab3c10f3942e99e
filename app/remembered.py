"""What a partition remembers of ids, looked up: the step says more than the table."""

from typing import Literal

from app.contract.request import Parked, Request
from app.step import Step
from tables import Cancel, PartitionStore


class Remembered:
    """Asks a step, and then the table, what is remembered of an id."""

    def __init__(self, store: PartitionStore) -> None:
        """Look into `store`."""
        self._store = store

    def cancel_of(self, step: Step, asked: Request) -> Cancel | None:
        """Give the remembered cancel that applies to a request: one that overtook it on another way."""
        if not (step.changes.cancels or self._store.cancels.count):
            return None
        cancel = step.changes.cancels.get(asked.id) or self._store.cancels.get(asked.id)
        if cancel is None or cancel.expires_ms <= step.broker_ms:
            return None
        order = asked.parked or asked
        topic, partition, offset = order.source.rsplit("-", 2)
        its_topic, its_partition, its_offset = cancel.source.rsplit("-", 2)
        if (topic, partition) == (its_topic, its_partition):
            return cancel if int(offset) < int(its_offset) else None
        return cancel if order.stamp_ms <= cancel.stamp_ms else None

    def delivered_before(self, step: Step, asked: Request) -> bool:
        """Tell whether the same id with the same due time was delivered within its dedupe window."""
        if not (step.changes.delivered or self._store.delivered.count):
            return False
        if asked.id in step.changes.delivered:
            delivered = step.changes.delivered[asked.id]
        else:
            delivered = self._store.delivered.get(asked.id)
        return delivered is not None and delivered.due_ms == asked.due_ms and delivered.expires_ms > step.broker_ms

    def standing(self, step: Step, asked: Request, parked: Parked) -> Literal["here", "superseded", ""]:
        """Tell what is known of a message that the cold tier sends back.

        `here`: this worker has, or has had, it. `superseded`: the cold tier was told something of the id that it did
        not know when it sent this. What a cancel has overtaken, and nothing else, is not: it may be told that it is
        cancelled.
        """
        if step.ids[asked.id] is not None:
            return "here"
        told = step.changes.told.get(asked.id) or self._store.told.get(asked.id)
        if told is None or told.expires_ms <= step.broker_ms:
            return ""
        if told.kept:
            return "here"
        if told.source == parked.source:
            return ""
        cancel = self.cancel_of(step, asked)
        overtaken = cancel is not None and cancel.if_due_ms is None and cancel.source == told.source
        return "" if overtaken else "superseded"
