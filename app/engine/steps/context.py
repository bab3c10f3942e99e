"""The context of a partition between two assignments, shared by all code that adds to its steps."""

from dataclasses import dataclass
from typing import Self

from app.engine.steps.cold_tier import ColdTier
from app.engine.steps.command_memory import CommandMemory
from app.engine.steps.step import Step
from app.engine.topics.internal_topics import TopicLimits
from app.settings.settings import Settings
from tables import Entry, PartitionStore, keys


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """A partition between two assignments. `claims` are its rows in flight."""

    number: int
    settings: Settings
    limits: TopicLimits
    store: PartitionStore
    claims: dict[bytes, Entry]
    cold: ColdTier
    memory: CommandMemory

    @classmethod
    def of(
        cls, number: int, settings: Settings, limits: TopicLimits, store: PartitionStore, claims: dict[bytes, Entry]
    ) -> Self:
        """Return the context of a partition whose store is restored."""
        cold, memory = (
            ColdTier(number, settings.topics, settings.retention, settings.engine, store, limits),
            CommandMemory(settings.topics, settings.retention, store),
        )
        return cls(number, settings, limits, store, claims, cold, memory)

    def free_key(self, step: Step, row: bytes, due_ms: int) -> bytes:
        """Return a free key for a new row that is due at `due_ms`, or soon after, with the rest of the key `row`.

        The next occurrence of a series and the callbacks of its failed ones all have the same rest. A key that the step
        itself removes is not free, because a changelog batch has one record per key.
        """
        key = keys.with_due(row, due_ms)
        while step.changes.touches(key) or self.store.raw(key) is not None:
            due_ms += 1
            key = keys.with_due(row, due_ms)
        return key
