"""What a partition remembers of ids, looked up: the step says more than the table."""

from typing import Literal

from app.engine.steps.command_memory import CommandMemory, stamp_of
from app.engine.steps.step import Step
from punctual.contract.request import Parked, Request
from tables import PartitionStore


class IdHistory:
    """Asks a step, and then the table, what is remembered of an id."""

    def __init__(self, store: PartitionStore, memory: CommandMemory) -> None:
        """Look into `store`; `memory` has the commands."""
        self._store, self._memory = store, memory

    def delivered_before(self, step: Step, asked: Request) -> bool:
        """Return whether the same id with the same due time was delivered within its dedupe window."""
        if not (step.changes.delivered or self._store.delivered.count):
            return False
        if asked.id in step.changes.delivered:
            delivered = step.changes.delivered[asked.id]
        else:
            delivered = self._store.delivered.get(asked.id)
        return delivered is not None and delivered.due_ms == asked.due_ms and delivered.expires_ms > step.broker_ms

    def standing(self, step: Step, asked: Request, parked: Parked) -> Literal["here", "superseded", ""]:
        """Return what is known of a message that the cold tier sends back.

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
        known = self._memory.of(step, asked.id)
        ended = known.ended if known is not None and known.cancelled and known.has_ended(stamp_of(asked)) else None
        return "" if ended is not None and ended.source == told.source else "superseded"
