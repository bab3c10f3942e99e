"""The due loop, one per worker: it sleeps until the earliest due time, then fires the due rows of all partitions."""

import asyncio
import logging
from collections.abc import Mapping
from operator import itemgetter
from typing import Final

from app.base.clock import Clock
from app.engine.deliver.dispatcher import Dispatcher
from app.engine.deliver.posts import Posts
from app.engine.due.input_liveness import InputLiveness
from app.engine.due.lateness import Lateness
from app.engine.due.row_firing import RowFiring
from app.engine.due.set_aside import LONGEST_S, SetAside
from app.engine.partition.in_flight import InFlight
from app.engine.partition.partition import Partition, State
from app.engine.steps.route import HTTP, Route
from app.engine.throttle.throttle import Throttle
from app.kafka import fast_path
from app.kafka.fast_path.interface import ONE_BY_ONE
from app.settings.settings import Settings
from tables import keys
from tables.changes import Pairs
from tables.entry import entry_of

log = logging.getLogger(__name__)

_first = itemgetter(0)

#: Rows that a partition fires in a cycle: with 500, a fifth fewer messages leave in a second when many are due at once;
#: with more, the other partitions wait longer for their turn.
FIRE_BATCH: Final = 1_000
#: Cycles are at least this far apart: firing each message on its own would cost twice the CPU.
_CYCLE_S = 0.004
#: The minimum while a partition has no room, when rows leave in a few large batches anyway.
_FULL_CYCLE_S = 0.001
#: A partition that is behind its inputs is checked again after this time.
_BEHIND_S = 0.05
#: Maximum bytes (about) of a partition's rows in flight, however large each row is.
_BYTES = 16 << 20


class DueLoop:
    """Fires the rows of a worker's live partitions when they are due, never before."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        dispatcher: Dispatcher,
        partitions: Mapping[int, Partition],
        liveness: InputLiveness | None = None,
        posts: Posts | None = None,
        throttle: Throttle | None = None,
        batch: int = FIRE_BATCH,
    ) -> None:
        """Send due rows of `partitions` through `dispatcher` and `posts`, as far as `throttle` allows.

        `liveness` checks before each cycle that inputs are read. A partition fires at most `batch` rows in a cycle.
        """
        self._max_in_flight, self._clock, self._dispatcher = settings.engine.max_in_flight, clock, dispatcher
        self._batch = batch
        self.partitions = partitions
        self.throttle = throttle or Throttle(settings.kafka, settings.topics, settings.destinations, clock)
        self.lateness = Lateness(clock.monotonic_ms)
        posts = posts or Posts(settings.topics, settings.destinations, clock)
        posts.room = self.notify
        self.rows = RowFiring(settings.topics, dispatcher, self.throttle, posts, liveness, batch)
        self.http, self.unread = self.rows.http, self.rows.unread
        self._set_aside = SetAside(self.throttle, self.rows.fire, self.http.takes, self._room, self.unread)
        #: Whether any partition had no room for more in the last cycle.
        self._full = False
        self._changed = asyncio.Event()
        self.beat_s = 0.0

    def notify(self, _: Partition | None = None) -> None:
        """Wake the loop: a row may be due earlier, or there may be room again."""
        self._changed.set()

    def abandon(self, partition: Partition) -> None:
        """Send no more rows of a partition that has stopped work."""
        self._dispatcher.abandon(partition)

    async def stop(self) -> None:
        """Abandon the HTTP requests under way."""
        await self.http.stop()

    async def run(self) -> None:
        """Fire until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = self.beat_s = loop.time()
            self._changed.clear()
            now = self._clock.now_ms()
            # After the clock is read: otherwise deliveries could overtake records that come while the process is
            # suspended.
            self.unread.look_at_inputs(self.partitions.values(), loop.time())
            await self._sleep(self.cycle(now) if self._clock.may_fire() else LONGEST_S)
            apart_s = _FULL_CYCLE_S if self._full else _CYCLE_S
            await asyncio.sleep(max(0.0, began + apart_s - loop.time()))

    def cycle(self, now: int) -> float:
        """Send rows due by `now` while there is room; return the seconds until the next cycle."""
        wait_s = LONGEST_S
        if self.throttle.active:
            self.throttle.own(self.partitions.keys())
        live = [partition for partition in self.partitions.values() if partition.state is State.LIVE]
        self._full = any(partition.in_flight.full for partition in live)
        for partition in live:
            wait_s = min(wait_s, self._fire(partition, now))
        self.rows.free.clear()
        if any(partition.in_flight.aside for partition in live):
            wait_s = min(wait_s, self._set_aside.go_through(live, now))
        self._send_off()
        return wait_s

    def obey(self) -> None:
        """Apply the controls of operators, and take back gathered rows of paused destinations."""
        self.throttle.update()
        if self.throttle.pauses:
            self._dispatcher.withdraw(self._is_paused)
            for partition in self.partitions.values():
                partition.withdraw(self._is_paused)
        self.notify()

    def _is_paused(self, route: Route) -> bool:
        return self.throttle.paused(route[:2]) is not None

    def top_up(self, partition: Partition) -> None:
        """Fire the due rows of a partition whose transaction is about to begin, so that they join it."""
        now = self._clock.now_ms()  # before may_fire(), because it notices jumps of the clock
        # The process may have been stopped since the last cycle.
        self.unread.look_at_inputs(self.partitions.values(), asyncio.get_running_loop().time())
        if self.throttle.pauses:
            partition.withdraw(self._is_paused)
        if partition.state is State.LIVE and self._clock.may_fire():
            self._fire(partition, now)
            self._send_off()

    def _send_off(self) -> None:
        self._dispatcher.send()
        for late_ms, rows in self.rows.late.items():
            self.lateness.add(late_ms, rows)
        self.rows.late.clear()

    async def _sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._changed.set)
        await self._changed.wait()
        timer.cancel()

    def _fire(self, partition: Partition, now: int) -> float:
        """Send a partition's rows due by `now` while it has room; return the seconds until the next cycle."""
        in_flight = partition.in_flight
        self.rows.sets_aside = self.throttle.active or bool(in_flight.aside)
        behind_ms = self.unread.look(partition)
        next_ms = self._unhold(partition, now, now - behind_ms) if in_flight.held or in_flight.tries else None
        partition.skip_settled()
        room = self._room(in_flight)
        claimed, in_flight.full = len(in_flight.claims), room <= 0
        if room <= 0:
            return LONGEST_S
        limit = min(room, self._batch)
        self.rows.free.clear()
        cut_off = False
        if in_flight.unread:  # half of the room, because they may be many and other rows are due too
            half = (limit + 1) // 2
            looked_at = self.unread.go_on(partition, now, half)
            cut_off, limit = looked_at == half, limit - looked_at
        if in_flight.late and limit > 0:
            limit -= self._fire_late(partition, now, now - behind_ms, limit)
        if limit <= 0:
            in_flight.full = len(in_flight.claims) - claimed >= room
            return 0.0
        rows, following = partition.store.due(now - behind_ms, in_flight.cursor, limit)
        if rows:
            self._fire_all(partition, self.unread.others(partition, rows, now) if self.unread.active else rows, now)
            in_flight.move_on(rows)
        # Set again, because the next cycle for this partition may be after its first outcomes.
        in_flight.full = len(in_flight.claims) - claimed >= room
        if following is not None:
            next_ms = keys.due_of(following) if next_ms is None else min(next_ms, keys.due_of(following))
        if cut_off:
            return 0.0
        longest_s = _BEHIND_S if behind_ms or in_flight.unread else LONGEST_S
        if next_ms is None:
            return longest_s
        return min(longest_s, max(0.0, (next_ms + behind_ms - self._clock.wall_ms()) / 1000))

    def _fire_all(self, partition: Partition, rows: Pairs, now: int) -> None:
        """Send due rows, plain rows many at a time."""
        in_flight, begin = partition.in_flight, 0
        plain = not self.rows.sets_aside and in_flight.untouched([*map(_first, rows)])
        while begin < len(rows):
            taken = self._fire_plain(partition, rows, begin, now) if plain else 0
            begin += taken
            others = begin + (1 if taken else ONE_BY_ONE)
            for key, raw in rows[begin:others]:
                if not in_flight.busy(key):
                    self.rows.decide(partition, key, in_flight.row(key, raw), now)
            begin = others

    def _fire_plain(self, partition: Partition, due: Pairs, begin: int, now: int) -> int:
        """Send the plain rows from index `begin` on; return how many."""
        taken, groups = self._dispatcher.plain_routes(due, begin)
        for route, rows in groups:
            if self._is_free(route):
                self._dispatcher.add_plain(partition, rows, route, now)
                for due_ms, number in fast_path.chosen.due_times(rows):
                    self.rows.late[now - due_ms] += number
            else:
                for key, row in rows:
                    self.rows.decide(partition, key, entry_of(row), now)
        return taken

    def _is_free(self, route: Route) -> bool:
        """Return whether all rows may be sent on a route for now."""
        if route in self.rows.free:
            return True
        dispatcher = self._dispatcher
        if dispatcher.gone(route) or dispatcher.hopeless(route) or dispatcher.blocked(route):
            return False
        if not dispatcher.steady(route):
            return False
        self.rows.free.add(route)
        return True

    def _fire_late(self, partition: Partition, now: int, until: int, limit: int) -> int:
        """Send rows due by `until` that steps have put before the cursor; return how many were read."""
        in_flight = partition.in_flight
        ready = in_flight.pop_late(until, limit)
        for key in ready:
            raw = None if key in in_flight.claims else partition.store.raw(key)
            if raw is not None:
                self.rows.decide(partition, key, in_flight.row(key, raw), now)
        return len(ready)

    def _room(self, in_flight: InFlight) -> int:
        """Return how many more rows of a partition may be in flight, by the average size of the last rows."""
        most = min(self._max_in_flight, max(1, _BYTES // in_flight.row_bytes))
        return most - in_flight.sending(self._is_aside)

    def _is_aside(self, route: Route) -> bool:
        """Return whether rows in flight on a route do not count against the partition's room."""
        return route[2] == HTTP or self._dispatcher.blocked(route)

    def _unhold(self, partition: Partition, now: int, until: int) -> int | None:
        """Go back to rows that were passed over, if their route is free again or their next try is due by `until`.

        Return when the next try of a row is (epoch ms), None if no row waits for one.
        """
        for route in partition.in_flight.held_routes(http=False):
            if not self._dispatcher.blocked(route):
                partition.in_flight.go_back(route)
        return self.http.go_on(partition, now, until)
