"""Goes through rows whose destination is paused or gets no more for now, each destination apart from all others.

The scan of the due loop passes them over once and leaves them behind. Here each destination has a place of its own in
each partition, so that a million rows that wait cost nothing until there is room for the next one, and hold nobody up.
"""

import math
from collections import defaultdict
from collections.abc import Callable

from app.engine.due.unread_inputs import UnreadInputs
from app.engine.partition.in_flight import InFlight
from app.engine.partition.partition import Partition
from app.engine.steps.route import destination_of
from app.engine.throttle.throttle import BACKLOG_MS, Throttle
from punctual.contract.destination import Destination
from tables import Entry, keys

#: So long the due loop sleeps at most: a wall clock that jumps does not wake a monotonic timer.
LONGEST_S = 0.5
#: A destination with a rate limit gets its messages at least so far apart, several at a time: each look costs.
_APART_S = 0.02
#: Rows that a partition's scan looks at for one destination, and all scans of one cycle: some milliseconds.
_OF_A_SCAN, _OF_A_CYCLE = 500, 2_000
#: Sends a row or does what is to be done instead; returns whether it is sent.
Fire = Callable[[Partition, bytes, Entry, int], bool]
#: Whether a row can be sent at that time, or anything else be done with it.
Takes = Callable[[bytes, Entry, int], bool]
#: How many more rows a partition may have on their way.
Room = Callable[[InFlight], int]


class SetAside:
    """Sends rows that were set aside when there is room for them: by (due, arrival), partitions in turn."""

    def __init__(
        self,
        throttle: Throttle,
        fire: Fire,
        takes: Takes,
        room: Room,
        unread: UnreadInputs,
    ) -> None:
        """Send rows by `fire` that it `takes`, while a partition has `room` and has read its inputs (`unread`)."""
        self._throttle, self._fire, self._takes, self._room = throttle, fire, takes, room
        self._unread = unread
        self._turn = self._looks = 0
        #: Whether a scan has ended before its time: it goes on at once, others when there may be room.
        self._cut_off = False

    def go_through(self, partitions: list[Partition], now: int) -> float:
        """Send what there is room for; return the seconds until the next look."""
        waiting = defaultdict[Destination, list[Partition]](list)
        for partition in partitions:
            if partition.in_flight.aside and not self._unread.behind_ms(partition):
                for to in partition.in_flight.aside:
                    waiting[to].append(partition)
        if not waiting:
            return LONGEST_S
        self._turn += 1
        self._looks = _OF_A_CYCLE
        wait_s = LONGEST_S
        for to in _rotated(list(waiting), self._turn):
            if self._throttle.paused(to) is None:
                wait_s = min(wait_s, self._serve(to, waiting[to], partitions, now))
            else:
                wait_s = min(wait_s, self._throttle.until_s(to, 0))
        return wait_s

    def _serve(self, to: Destination, waiting: list[Partition], partitions: list[Partition], now: int) -> float:
        """Send to one destination what there is room for; return the seconds until the next look."""
        late = now - min(keys.due_of(partition.in_flight.aside[to]) for partition in waiting)
        before_ms = now - BACKLOG_MS if self._throttle.is_backlog(to, late) else None
        sent = sum(partition.in_flight.on_their_way(to, before_ms) for partition in partitions)
        to_cluster = 0
        if self._throttle.shares(to):
            to_cluster = sum(partition.in_flight.on_their_way_to_cluster(to[0]) for partition in partitions)
        room = self._throttle.room(to, late, sent, to_cluster)
        if room < 1:
            return max(_APART_S, self._throttle.until_s(to, late))
        share, self._cut_off = math.inf if room == math.inf else max(1, room // len(waiting)), False
        for partition in _rotated(waiting, self._turn):
            room -= self._scan(partition, to, now, min(share, room))
            if room < 1 or self._looks <= 0:
                break
        left = [partition for partition in waiting if to in partition.in_flight.aside]
        if not left:
            return LONGEST_S
        return 0.0 if self._cut_off or self._looks <= 0 else _APART_S

    def _scan(self, partition: Partition, to: Destination, now: int, share: float) -> int:
        """Send a partition's next rows for a destination, at most `share` of those that are limited; return how many.

        Those before the place that it stops at are dealt with; at the cursor, the due loop's scan goes on.
        """
        in_flight, spent = partition.in_flight, 0
        self._unread.look(partition)
        room = self._room(in_flight)
        for count, (key, raw) in enumerate(partition.store.raw_rows(in_flight.aside[to])):
            if key >= in_flight.cursor:
                break
            if count >= _OF_A_SCAN or self._looks <= 0:
                in_flight.aside[to], self._cut_off = key, True
                return spent
            self._looks -= 1
            if key in in_flight.claims:
                continue
            entry = in_flight.row(key, raw)
            if entry.url is not None or destination_of(entry) != to or self._unread.waits(partition, key, entry, now):
                continue
            if len(raw) > in_flight.row_bytes:  # the due loop has seen smaller ones last
                in_flight.row_bytes = len(raw)
                room = min(room, self._room(in_flight))
            late = now - keys.due_of(key)
            limited = self._throttle.limits(to, late)
            full = room <= 0 or (limited and spent >= share) or not self._takes(key, entry, now)
            if late < 0 or full or in_flight.is_going(key):
                in_flight.aside[to] = key
                return spent
            if self._fire(partition, key, entry, now):
                room -= 1
                if limited:
                    spent += 1
                    self._throttle.spend(to, late)
        del in_flight.aside[to]
        return spent


def _rotated(items: list, turn: int) -> list:  # type: ignore[type-arg]
    """Return the same items, beginning with another one at each turn."""
    place = turn % len(items)
    return items[place:] + items[:place]
