"""Plans of messages. The load generator and the check of the deliveries both derive the messages from the same plan."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

#: Values are cut from this, each far from its neighbours': disk and network figures are not those of well-packed dots.
_NOISE = random.Random(0).randbytes(1 << 16)  # noqa: S311 - repeatable
_STRIDE, _CUTS = 1_237, 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`count` messages to one destination; message i is due i steps after the base, plus a random lead.

    Times are epoch milliseconds. A paced plan sends message i at i steps after the start, any other plan as fast as it
    can from the start on (0: at once).
    """

    name: str
    """Ids are `<name>-<number>`: each name once an installation."""
    to: str
    count: int
    base_ms: int
    step_us: int = 0
    lead_ms: int = 0
    """The shortest lead."""
    spread_ms: int = 0
    """The maximum of the random time that is added to the shortest lead."""
    start_ms: int = 0
    paced: bool = False
    value_bytes: int = 200
    unit_ms: int = 1
    """Due times are cut to whole multiples of this."""

    def id(self, number: int) -> str:
        """Return a message's id, which is also its key."""
        return f"{self.name}-{number}"

    def value(self, number: int) -> bytes:
        """Return a message's value: it tells the message, so that a mix-up would show, and does not compress."""
        id_, at = self.id(number).encode(), number * _STRIDE % _CUTS
        padding_bytes = self.value_bytes - len(id_) - 1
        return b"%b.%b" % (id_, _NOISE[at : at + padding_bytes])

    def due_times(self) -> Iterator[int]:
        """Return the due times of all messages in their order, the same ones each time."""
        leads = random.Random(self.name)  # noqa: S311 - a repeatable load is the point
        for number in range(self.count):
            lead = self.lead_ms + (leads.randint(0, self.spread_ms) if self.spread_ms else 0)
            due_ms = self.base_ms + number * self.step_us // 1000 + lead
            yield due_ms - due_ms % self.unit_ms

    def send_ms(self, number: int) -> int:
        """Return when a message of a paced plan is to be sent."""
        return self.start_ms + number * self.step_us // 1000

    @property
    def last_due_ms(self) -> int:
        """The latest due time that can occur."""
        return self.base_ms + self.count * self.step_us // 1000 + self.lead_ms + self.spread_ms
