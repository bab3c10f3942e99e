"""How late a message may become due, however often it is replaced or moved (docs/reference/records.md#debounce)."""

import msgspec

from tables.commands import UNKNOWN_MS, RecordStamp


class Bound(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The maximum delay of a message, carried over from the requests that it has replaced.

    `first_ms` is the earliest stamp among the replaced requests and its own (epoch ms). `within_ms` is the maximum
    delay after `first_ms`, set by the last request that asked for a bound, `by`. `asked_ms` is the requested due time,
    if the bound made it earlier.
    """

    first_ms: int
    within_ms: int | None = None
    by: RecordStamp | None = None
    asked_ms: int | None = None

    @property
    def latest_ms(self) -> int | None:
        """The latest due time (epoch ms); None means no limit."""
        return None if self.within_ms is None or self.first_ms < 0 else self.first_ms + self.within_ms

    def joined(self, other: "Bound") -> "Bound":
        """Return the bound of a message that combines two requests, in whichever order they came.

        The later request for a bound wins, even if newer requests asked for none. The requested due time is kept.
        """
        known = [one.first_ms for one in (self, other) if one.first_ms >= 0]
        by = self
        if other.by is not None and (self.by is None or self.by.precedes(other.by)):
            by = other
        return Bound(min(known, default=UNKNOWN_MS), by.within_ms, by.by, self.asked_ms)
