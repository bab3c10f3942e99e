"""The due loop, one per worker: it sleeps until the earliest due time, then gathers what is due in all partitions."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping

from app.clock import Clock
from app.deliver.dispatcher import Dispatcher
from app.deliver.posts import Posts
from app.due.http_rows import HttpRows
from app.due.input_liveness import InputLiveness
from app.due.lateness import Lateness
from app.partition.partition import Partition
from app.partition.state import State
from app.route import HTTP, Route
from app.settings import Settings
from app.steps.outcomes import Dropped, Unsent
from punctual.contract.dialects import OF_ROWS
from punctual.contract.request import Reason
from tables import Entry, keys
from tables.entry import decode

log = logging.getLogger(__name__)

#: Cycles are at least this far apart: firing each message on its own would cost twice the CPU.
_CYCLE_S = 0.004
#: Never sleep longer than this: a wall clock that jumps does not wake a monotonic timer.
_LONGEST_S = 0.5


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
    ) -> None:
        """Send through `dispatcher` and `posts` what is due in `partitions` by `clock`; `liveness` looks before."""
        self._settings, self._clock, self._dispatcher = settings, clock, dispatcher
        self.partitions, self._liveness = partitions, liveness
        self.lateness = Lateness(clock.monotonic_ms)
        posts = posts or Posts(settings, clock)
        posts.room = self.notify
        self.http = HttpRows(posts, self._decide, settings.fire_batch)
        #: Routes that are free for the rest of what a partition fires, and how many rows of a cycle were how late.
        self._free = set[Route]()
        self._late = Counter[int]()
        self._changed = asyncio.Event()
        self.beat_s = 0.0

    def notify(self, _: Partition | None = None) -> None:
        """Look again: something may be due earlier, or there is room again."""
        self._changed.set()

    async def stop(self) -> None:
        """Abandon what is posted at the moment."""
        await self.http.stop()

    async def run(self) -> None:
        """Fire until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = self.beat_s = loop.time()
            self._changed.clear()
            now = self._clock.now_ms()
            self._look(loop.time())  # after that: what comes while the process stands still is not overtaken
            await self._sleep(self.cycle(now) if self._clock.may_fire() else _LONGEST_S)
            await asyncio.sleep(max(0.0, began + _CYCLE_S - loop.time()))

    def cycle(self, now: int) -> float:
        """Send what is due by `now` as far as there is room; return the seconds until the next look."""
        wait_s = _LONGEST_S
        for partition in list(self.partitions.values()):
            if partition.state is State.LIVE:
                wait_s = min(wait_s, self._fire(partition, now))
        self._send_off()
        return wait_s

    def top_up(self, partition: Partition) -> None:
        """Fire what is due in a partition whose transaction is about to begin, instead of waiting for its next one."""
        now = self._clock.now_ms()  # before may_fire: it notices jumps
        self._look(asyncio.get_running_loop().time())  # the process may have been stopped since the last cycle
        if partition.state is State.LIVE and self._clock.may_fire():
            self._fire(partition, now)
            self._send_off()

    def _look(self, now_s: float) -> None:
        """Check that inputs are being read, before any partition is fired."""
        if self._liveness is not None:
            self._liveness.look(self.partitions.values(), now_s)

    def _send_off(self) -> None:
        self._dispatcher.send()
        for late_ms, rows in self._late.items():
            self.lateness.add(late_ms, rows)
        self._late.clear()

    async def _sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._changed.set)
        await self._changed.wait()
        timer.cancel()

    def _fire(self, partition: Partition, now: int) -> float:
        """Send a partition's rows due by `now` as far as it has room; return the seconds until the next look."""
        self._unhold(partition)
        next_ms = self.http.go_on(partition, now)
        partition.skip_settled()
        in_flight = partition.in_flight
        room = self._settings.fire_room - in_flight.sending(self._is_aside)
        if room <= 0:
            return _LONGEST_S
        limit = min(room, self._settings.fire_batch)
        self._free.clear()
        found, following = partition.store.due(now, in_flight.cursor, limit)
        for key, raw in found:
            if not in_flight.busy(key):
                self._decide(partition, key, decode(raw), now)
        if found:
            in_flight.move_on(found[-1][0])
        if following is not None:
            next_ms = keys.due_of(following) if next_ms is None else min(next_ms, keys.due_of(following))
        return _LONGEST_S if next_ms is None else max(0.0, (next_ms - self._clock.wall_ms()) / 1000)

    def _decide(self, partition: Partition, key: bytes, entry: Entry, now: int) -> None:
        """Decide what happens to a due row."""
        late = now - keys.due_of(key)
        if entry.url is not None:
            self.http.post(partition, key, entry, now)
        elif entry.commands:  # it was being sent when the process died: what was asked then applies now
            partition.in_flight.claim(key, entry)
            partition.tell(Unsent(key))
        elif entry.max_late_ms is not None and late > entry.max_late_ms and entry.if_late == "drop":
            partition.in_flight.claim(key, entry)
            partition.tell(Dropped(key, late))
        elif entry.max_late_ms is not None and late > entry.max_late_ms and entry.if_late == "dead-letter":
            allows = f"{OF_ROWS.words.max_late} allows {entry.max_late_ms}"
            sentence = f"it is {late} ms late, {allows}. Send it again if it still matters."
            self._dispatcher.refuse(partition, key, entry, Reason.TOO_LATE, sentence)
        elif "://" not in entry.to:
            self._send(partition, key, entry, now, late)
        elif self.http.post(partition, key, entry, now) and not entry.attempts:
            self._late[late] += 1

    def _is_aside(self, route: Route) -> bool:
        """Return whether what is in flight on a route takes no room from the rest."""
        return route[2] == HTTP or self._dispatcher.blocked(route)

    def _send(self, partition: Partition, key: bytes, entry: Entry, now: int, late: int) -> None:
        if entry.cluster is not None and not self._dispatcher.knows(entry.cluster):
            sentence = f"there is no cluster {entry.cluster} any more. Add it to DELAY_CLUSTERS, then send it again."
            self._dispatcher.refuse(partition, key, entry, Reason.UNKNOWN_CLUSTER, sentence)
            return
        route = self._dispatcher.route(entry)
        if route in self._free:
            self._add(partition, key, entry, route, now, late)
        elif self._dispatcher.missing.gone(route):
            sentence = self._dispatcher.missing.absence(route)
            self._dispatcher.refuse(partition, key, entry, Reason.UNKNOWN_TOPIC, sentence)
        elif self._dispatcher.hopeless(route):
            sentence = f"topic {entry.to} takes nothing, longer than DELAY_GIVE_UP. See why, then send it again."
            self._dispatcher.refuse(partition, key, entry, Reason.UNDELIVERABLE, sentence)
        elif self._dispatcher.blocked(route):
            partition.in_flight.hold(key, entry, route)
        else:
            if self._dispatcher.steady(route):
                self._free.add(route)
            self._add(partition, key, entry, route, now, late)

    def _add(self, partition: Partition, key: bytes, entry: Entry, route: Route, now: int, late: int) -> None:
        self._dispatcher.add(partition, key, entry, route, now)
        self._late[late] += 1

    def _unhold(self, partition: Partition) -> None:
        """Go back to rows that were passed over, when their route is free again."""
        for route in partition.in_flight.held_routes(http=False):
            if not self._dispatcher.blocked(route):
                partition.in_flight.go_back(route)
