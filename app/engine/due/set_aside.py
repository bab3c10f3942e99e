"""Scans rows whose destination is paused or has used up its rate limit, separately for each destination.

The scan of the due loop passes these rows over once and leaves them behind. Here each destination has a place of its
own in each partition. So a million waiting rows cost no time until there is room, and delay no other destination.
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

#: Maximum sleep of the due loop: a wall clock that jumps does not wake a monotonic timer.
LONGEST_S = 0.5
#: Minimum time between scans for a destination with a rate limit. Scans cost time, so each sends several messages.
_APART_S = 0.02
#: Maximum rows read in a partition for one destination, and in all scans of a cycle (some milliseconds).
_OF_A_SCAN, _OF_A_CYCLE = 500, 2_000
#: Sends a row, or holds, drops or rejects it; returns whether it is sent.
Fire = Callable[[Partition, bytes, Entry, int], bool]
#: Returns whether a row can be sent, postponed or rejected at a time.
Takes = Callable[[bytes, Entry, int], bool]
#: Returns how many more rows of a partition may be in flight.
Room = Callable[[InFlight], int]


class SetAside:
    """Sends rows that were set aside when there is room: by due time and arrival, partitions in turn."""

    def __init__(
        self,
        throttle: Throttle,
        fire: Fire,
        takes: Takes,
        room: Room,
        unread: UnreadInputs,
    ) -> None:
        """Send rows by `fire` if `takes` returns True, the partition has `room`, and its inputs are read (`unread`)."""
        self._throttle, self._fire, self._takes, self._room = throttle, fire, takes, room
        self._unread = unread
        self._turn = self._looks = 0
        #: Whether a scan has reached its maximum of rows, so that it goes on at once.
        self._cut_off = False

    def go_through(self, partitions: list[Partition], now: int) -> float:
        """Send rows that were set aside while there is room; return the seconds until the next scan."""
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
        """Send the rows of one destination while there is room; return the seconds until the next scan."""
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
        """Send a partition's next rows for a destination; return how many rate-limited rows were sent (max `share`).

        Rows before the place where it stops are settled. It ends at the cursor, where the due loop's scan goes on.
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
            if len(raw) > in_flight.row_bytes:  # the due loop's last rows were smaller
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
    """Return the items, beginning with a different item at each turn."""
    place = turn % len(items)
    return items[place:] + items[:place]
