"""How late a message may become due, however often it is replaced or moved (docs/reference/records.md#debounce)."""

import msgspec

from tables.commands import UNKNOWN_MS, RecordStamp


class Bound(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a message keeps of the requests that it has replaced, and of the bound that one of them has asked for.

    `first_ms` is the earliest stamp among these requests and its own (epoch ms), `within_ms` how long after that it is
    due at the latest, by the request `by`: the last one that asked for a bound. `asked_ms` is the due time that was
    asked for, if that is later.
    """

    first_ms: int
    within_ms: int | None = None
    by: RecordStamp | None = None
    asked_ms: int | None = None

    @property
    def latest_ms(self) -> int | None:
        """When it is due at the latest (epoch ms); None is ever so late."""
        return None if self.within_ms is None or self.first_ms < 0 else self.first_ms + self.within_ms

    def joined(self, other: "Bound") -> "Bound":
        """Return the bound of one message whose requests both stand for, whichever of them came first.

        What was asked for last holds, also if what came after it asked for none. The due time asked for stays.
        """
        known = [one.first_ms for one in (self, other) if one.first_ms >= 0]
        by = self
        if other.by is not None and (self.by is None or self.by.precedes(other.by)):
            by = other
        return Bound(min(known, default=UNKNOWN_MS), by.within_ms, by.by, self.asked_ms)
