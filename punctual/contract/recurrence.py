"""The times of a series, and its missed occurrences (docs/reference/recurring-messages.md)."""

from typing import Final, Literal

import msgspec

from punctual.contract import cron
from punctual.contract.jitter import spread
from punctual.contract.zones import UTC

Misfire = Literal["catch-up", "catch-up-last"]

#: The minimum interval; cron has no smaller unit.
SHORTEST_MS: Final = 1_000
#: How far a search for the last occurrence looks back at first, and the factor for each further step.
_BACK_MS, _FURTHER = 60_000, 8


class Recurrence(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The recurrence rule of a series: the planned times of its occurrences, and the handling of missed ones.

    Either `every_ms` is set, an interval counted from `anchor_ms`, the first occurrence, or `cron`, 5 or 6
    fields, in `zone`, an IANA name (None: UTC). There are no planned times after `until_ms`, and at most `count`
    occurrences. An occurrence that is later than `window_ms` is not delivered (None: no limit). Each is due at a
    random moment within `jitter_ms` after its planned time, and before the next planned time.

    It is msgpack in rows and in the forwards topic, so new fields must be at the end.
    """

    every_ms: int | None
    cron: str | None
    anchor_ms: int = 0
    zone: str | None = None
    until_ms: int | None = None
    count: int | None = None
    misfire: Misfire = "catch-up-last"
    window_ms: int | None = None
    jitter_ms: int | None = None

    def after(self, ms: int) -> int | None:
        """Return the first planned time after `ms`, None if there is none up to `until_ms`; `count` is ignored.

        Raises ZoneInfoNotFoundError, a KeyError, on a machine that does not know the zone.
        """
        if self.every_ms is not None:
            intervals = max(0, (ms - self.anchor_ms) // self.every_ms + 1)
            planned = self.anchor_ms + intervals * self.every_ms
            return None if self.until_ms is not None and planned > self.until_ms else planned
        assert self.cron is not None
        until = cron.END_S if self.until_ms is None else self.until_ms // 1000
        at = cron.schedule(self.cron, self.zone or UTC).after(ms // 1000, until)
        return None if at is None else at * 1000

    def due(self, id_: str, planned_ms: int) -> int:
        """Return the due time of the occurrence planned for `planned_ms`: jitter keeps it before the next planned time.

        A series waits as one message, so a later due time would take the place of other occurrences.
        """
        if not self.jitter_ms:
            return planned_ms
        return spread(id_, planned_ms, self.jitter_at(planned_ms))

    def jitter_at(self, planned_ms: int) -> int:
        """Return the maximum jitter of the occurrence planned for `planned_ms`."""
        jitter_ms = self.jitter_ms or 0
        if jitter_ms < SHORTEST_MS or (self.every_ms is not None and jitter_ms < self.every_ms):
            return jitter_ms
        following_ms = self.after(planned_ms)
        return jitter_ms if following_ms is None else min(jitter_ms, following_ms - 1 - planned_ms)

    def last_before(self, after_ms: int, now_ms: int) -> int | None:
        """Return the latest planned time after `after_ms` and up to `now_ms`, None if there is none.

        It looks back from `now_ms`, eight times as far in each step, until it finds one, and then bisects: some 25
        steps in all.
        """
        last = self.after(after_ms)
        if last is None or last > now_ms:
            return None
        none_after, back_ms = now_ms, _BACK_MS
        while now_ms - back_ms > last:
            planned = self.after(now_ms - back_ms)
            if planned is not None and planned <= now_ms:
                last = planned
                break
            none_after, back_ms = now_ms - back_ms, back_ms * _FURTHER
        planned = self.after(last)
        if planned is None or planned > now_ms:  # usual for rare occurrences
            return last
        while last + SHORTEST_MS <= none_after:
            middle = (last + none_after) // 2
            planned = self.after(middle)
            if planned is None or planned > now_ms:
                none_after = middle
            else:
                last = planned
        return last

    def following(self, ms: int, limit: int) -> list[int]:
        """Return the next planned times after `ms`, at most `limit`; `count` is ignored."""
        times: list[int] = []
        planned = self.after(ms)
        while planned is not None and len(times) < limit:
            times.append(planned)
            planned = self.after(planned)
        return times
