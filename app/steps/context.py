"""What one life of a partition works on: handed to whatever makes steps of orders and outcomes."""

from dataclasses import dataclass
from typing import Self

from app.settings import Settings
from app.steps.cold_tier import Cold
from app.steps.limits import Limits
from app.steps.order_memory import OrderMemory
from tables import Entry, PartitionStore


@dataclass(frozen=True, slots=True)
class Context:
    """A partition between two assignments. `claims` are its rows whose sends are outstanding."""

    number: int
    settings: Settings
    limits: Limits
    store: PartitionStore
    claims: dict[bytes, Entry]
    cold: Cold
    memory: OrderMemory

    @classmethod
    def of(
        cls, number: int, settings: Settings, limits: Limits, store: PartitionStore, claims: dict[bytes, Entry]
    ) -> Self:
        """Return the context of a partition whose store is restored."""
        cold, memory = Cold(number, settings, store, limits), OrderMemory(settings, store)
        return cls(number, settings, limits, store, claims, cold, memory)
