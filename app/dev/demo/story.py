"""The events in the shop, drawn from a random generator; no I/O."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

Change = Literal["cancel", "snooze", "hurry"]

CUSTOMERS = ("Ada", "Barbara", "Edsger", "Grace", "Jim", "Leslie", "Margaret", "Niklaus", "Radia", "Tony")
GOODS = ("espresso", "green tea", "rye bread", "honey", "olive oil", "saffron", "ink", "candles")


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of an order: its kind, its time after the order, and for a snooze the new delay (seconds)."""

    change: Change
    after_s: float
    again_s: float
    why: str


@dataclass(frozen=True, slots=True)
class Order:
    """An order and its delayed message."""

    number: int
    text: str
    prepaid: bool
    due_s: float
    turn: Turn | None

    @property
    def id(self) -> str:
        """The id of the delayed message."""
        return f"{'release' if self.prepaid else 'reminder'}-{self.number}"


def orders(random: Random, first_number: int, longest_s: float) -> Iterator[Order]:
    """Yield an endless sequence of orders.

    A prepaid order is released to the warehouse after a while in which it can still change; an unpaid order gets a
    reminder, which is cancelled if the customer pays, and moved if the customer asks for time.
    """
    number, shortest_s = first_number, min(1.0, longest_s / 2)
    while True:
        # Short delays are more frequent than long ones, so that there is something to see at once.
        due_s = shortest_s * (longest_s / shortest_s) ** random.random()
        text = f"{random.choice(CUSTOMERS)}: {random.randint(1, 9)} x {random.choice(GOODS)}"
        prepaid = random.choices((True, False), weights=(30, 70))[0]
        yield Order(number, text, prepaid, due_s, _turn(random, due_s))
        number += 1


def _turn(random: Random, due_s: float) -> Turn | None:
    # The change comes well before the due time, so that it wins.
    after_s = due_s * random.uniform(0.2, 0.7)
    cancel = Turn("cancel", after_s, 0, "paid, or cancelled")
    snooze = Turn("snooze", after_s, due_s * random.uniform(0.5, 1), "asked for more time")
    hurry = Turn("hurry", after_s, 0, "wants it now")
    return random.choices((None, cancel, snooze, hurry), weights=(60, 20, 15, 5))[0]
