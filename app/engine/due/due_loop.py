"""The due loop, one per worker: it sleeps until the earliest due time, then gathers what is due in all partitions."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING

from app.base.clock import Clock
from app.engine.deliver import usual_routes as in_python
from app.engine.deliver.dispatcher import Dispatcher
from app.engine.deliver.posts import Posts
from app.engine.due.http_rows import HttpRows
from app.engine.due.input_liveness import InputLiveness
from app.engine.due.lateness import Lateness
from app.engine.due.set_aside import LONGEST_S, SetAside
from app.engine.due.unread_inputs import UnreadInputs
from app.engine.partition.in_flight import InFlight
from app.engine.partition.partition import Partition
from app.engine.partition.state import State
from app.engine.steps import occurrences
from app.engine.steps.outcomes import Dropped, Unsent
from app.engine.steps.route import HTTP, Route, destination_of
from app.engine.throttle.throttle import Throttle
from app.settings.settings import Settings
from punctual.contract.dialects.dialects import OF_ROWS
from punctual.contract.request import Reason
from tables import Entry, compiled, keys
from tables.changes import Pairs
from tables.entry import entry_of

if TYPE_CHECKING:
    from app.engine.due.series_pace import SeriesPace

log = logging.getLogger(__name__)

_first = itemgetter(0)

#: Cycles are at least this far apart: firing each message on its own would cost twice the CPU.
_CYCLE_S = 0.004
#: The same while partitions wait for room: what there is goes in a few lumps.
_FULL_CYCLE_S = 0.001
#: A partition that is behind its inputs is looked at again after so long.
_BEHIND_S = 0.05
#: A partition has no more than about so much on its way, however large its rows are.
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
    ) -> None:
        """Send through `dispatcher` and `posts` what is due in `partitions` by `clock`, as far as `throttle` allows.

        `liveness` looks at the partitions before.
        """
        self._settings, self._clock, self._dispatcher = settings, clock, dispatcher
        self.partitions = partitions
        self.throttle = throttle or Throttle(settings, clock)
        self.lateness = Lateness(clock.monotonic_ms)
        posts = posts or Posts(settings, clock)
        posts.room = self.notify
        self.http = HttpRows(posts, self._decide, settings.fire_batch)
        #: Set where namespaces have rates.
        self.pace: SeriesPace | None = None
        self.unread = UnreadInputs(liveness, settings.namespaces, self._decide)
        self._set_aside = SetAside(self.throttle, self._fire_row, self.http.takes, self._room, self.unread)
        #: Routes that are free for the rest of what a partition fires, and how many rows of a cycle were how late.
        self._free = set[Route]()
        self._late = Counter[int]()
        #: Whether rows of what a partition fires may have to be set aside, and whether any had no room for more.
        self._sets_aside = self._full = False
        self._changed = asyncio.Event()
        self.beat_s = 0.0

    def notify(self, _: Partition | None = None) -> None:
        """Look again: something may be due earlier, or there is room again."""
        self._changed.set()

    def abandon(self, partition: Partition) -> None:
        """Send nothing more of a partition that works no more."""
        self._dispatcher.abandon(partition)

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
            # After the clock is read: records that arrive while the process is suspended are not overtaken.
            self.unread.look_at_inputs(self.partitions.values(), loop.time())
            await self._sleep(self.cycle(now) if self._clock.may_fire() else LONGEST_S)
            apart_s = _FULL_CYCLE_S if self._full else _CYCLE_S
            await asyncio.sleep(max(0.0, began + apart_s - loop.time()))

    def cycle(self, now: int) -> float:
        """Send what is due by `now` as far as there is room; return the seconds until the next look."""
        wait_s = LONGEST_S
        if self.throttle.active:
            self.throttle.own(self.partitions.keys())
        live = [partition for partition in self.partitions.values() if partition.state is State.LIVE]
        self._full = any(partition.in_flight.full for partition in live)
        for partition in live:
            wait_s = min(wait_s, self._fire(partition, now))
        self._free.clear()
        wait_s = min(wait_s, self._set_aside.go_through(live, now))
        self._send_off()
        return wait_s

    def obey(self) -> None:
        """Go by what operators want now: what is gathered for a destination that is paused is not sent."""
        self.throttle.update()
        if self.throttle.pauses:
            self._dispatcher.withdraw(self._is_paused)
            for partition in self.partitions.values():
                partition.withdraw(self._is_paused)
        self.notify()

    def _is_paused(self, route: Route) -> bool:
        return self.throttle.paused(route[:2]) is not None

    def top_up(self, partition: Partition) -> None:
        """Fire what is due in a partition whose transaction is about to begin, instead of waiting for its next one."""
        now = self._clock.now_ms()  # before may_fire: it notices jumps
        # The process may have been stopped since the last cycle.
        self.unread.look_at_inputs(self.partitions.values(), asyncio.get_running_loop().time())
        if self.throttle.pauses:
            partition.withdraw(self._is_paused)
        if partition.state is State.LIVE and self._clock.may_fire():
            self._fire(partition, now)
            self._send_off()

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
        in_flight = partition.in_flight
        self._sets_aside = self.throttle.active or bool(in_flight.aside)
        self._unhold(partition)
        behind_ms = self.unread.look(partition)
        next_ms = self.http.go_on(partition, now - behind_ms)
        partition.skip_settled()
        room = self._room(in_flight)
        claimed, in_flight.full = len(in_flight.claims), room <= 0
        if room <= 0:
            return LONGEST_S
        limit = min(room, self._settings.fire_batch)
        self._free.clear()
        cut_off = False
        if in_flight.unread:  # half of the room: they may be many, and other messages are due as well
            half = (limit + 1) // 2
            looked_at = self.unread.go_on(partition, now, half)
            cut_off, limit = looked_at == half, limit - looked_at
        if in_flight.late and limit > 0:
            limit -= self._fire_late(partition, now, now - behind_ms, limit)
        if limit <= 0:
            in_flight.full = len(in_flight.claims) - claimed >= room
            return 0.0
        found, following = partition.store.due(now - behind_ms, in_flight.cursor, limit)
        if found:
            self._fire_all(partition, self.unread.others(partition, found, now) if self.unread.active else found, now)
            in_flight.move_on(found)
        # It may not be looked at again before its first outcomes.
        in_flight.full = len(in_flight.claims) - claimed >= room
        if following is not None:
            next_ms = keys.due_of(following) if next_ms is None else min(next_ms, keys.due_of(following))
        if cut_off:
            return 0.0
        longest_s = _BEHIND_S if behind_ms or in_flight.unread else LONGEST_S
        if next_ms is None:
            return longest_s
        return min(longest_s, max(0.0, (next_ms + behind_ms - self._clock.wall_ms()) / 1000))

    def _fire_all(self, partition: Partition, found: Pairs, now: int) -> None:
        """Send due rows, the plain ones many at a time."""
        in_flight, begin = partition.in_flight, 0
        plain = not self._sets_aside and in_flight.untouched([*map(_first, found)])
        while begin < len(found):
            taken = self._fire_plain(partition, found, begin, now) if plain else 0
            begin += taken
            others = begin + (1 if taken else compiled.OTHERS)
            for key, raw in found[begin:others]:
                if not in_flight.busy(key):
                    self._decide(partition, key, in_flight.row(key, raw), now)
            begin = others

    def _fire_plain(self, partition: Partition, found: Pairs, begin: int, now: int) -> int:
        """Send the plain rows from the one at `begin` on; return how many that were."""
        taken, groups = self._dispatcher.plain_routes(found, begin)
        for route, rows in groups:
            if self._is_free(route):
                self._dispatcher.add_plain(partition, rows, route, now)
                for due_ms, number in (compiled.kernel or in_python).dues(rows):
                    self._late[now - due_ms] += number
            else:
                for key, row in rows:
                    self._decide(partition, key, entry_of(row), now)
        return taken

    def _is_free(self, route: Route) -> bool:
        """Return whether all rows may be sent on a route for now."""
        if route in self._free:
            return True
        dispatcher = self._dispatcher
        if dispatcher.missing.gone(route) or dispatcher.hopeless(route) or dispatcher.blocked(route):
            return False
        if not dispatcher.steady(route):
            return False
        self._free.add(route)
        return True

    def _fire_late(self, partition: Partition, now: int, until: int, limit: int) -> int:
        """Send rows due `until` then that were put before the cursor; return how many were looked at."""
        in_flight = partition.in_flight
        ready = in_flight.pop_late(until, limit)
        for key in ready:
            raw = None if key in in_flight.claims else partition.store.raw(key)
            if raw is not None:
                self._decide(partition, key, in_flight.row(key, raw), now)
        return len(ready)

    def _decide(self, partition: Partition, key: bytes, entry: Entry, now: int) -> None:
        """Decide what happens to a due row."""
        if self.unread.waits(partition, key, entry, now):
            pass
        elif entry.url is not None:
            self.http.post(partition, key, entry, now)
        elif self._sets_aside and not entry.commands and self._waits(partition, key, entry, now):
            pass
        elif self._fire_row(partition, key, entry, now) and not (entry.attempts or self._was_held(key)):
            self._late[now - keys.due_of(key)] += 1

    def _was_held(self, key: bytes) -> bool:
        return self.pace is not None and self.pace.was_held(key)

    def _waits(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Set a row aside if its destination is paused or capped, or rows before it are; return whether it is."""
        to, in_flight = destination_of(entry), partition.in_flight
        waits = to in in_flight.aside or self.throttle.throttles(to, now - keys.due_of(key))
        if waits:
            in_flight.set_aside(to, key)
        return waits

    def _fire_row(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Send or post a row, or do what is to be done instead; return whether it is on its way."""
        if entry.commands:  # it was being sent when the process died: what was asked then applies now
            partition.in_flight.claim(key, entry)
            partition.tell(Unsent(key))
            return False
        if entry.series is not None and occurrences.is_missed(entry, key, now):
            partition.in_flight.claim(key, entry)
            partition.tell(Dropped(key, now - keys.due_of(key), "missed"))
            return False
        if entry.max_late_ms is not None and self._too_late(partition, key, entry, now):
            return False
        pace = None if entry.series is None else self.pace
        if pace is not None and pace.holds(partition, key, entry, now):
            return False
        is_sent = (self.http.post if "://" in entry.to else self._send)(partition, key, entry, now)
        if is_sent and pace is not None:
            pace.sent(partition, entry, now)
        return is_sent

    def _too_late(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Give a row up that is too late, if its sender wants that; return whether it is."""
        late, limit = now - keys.due_of(key), entry.max_late_ms
        if limit is None or late <= limit or entry.if_late not in ("drop", "dead-letter"):
            return False
        if entry.if_late == "drop":
            partition.in_flight.claim(key, entry)
            partition.tell(Dropped(key, late))
        else:
            sentence = (
                f"the message is {late} ms late, but {OF_ROWS.words.max_late} is {limit} ms. Send it again if it is "
                "still needed."
            )
            self._dispatcher.refuse(partition, key, entry, Reason.TOO_LATE, sentence)
        return True

    def _room(self, in_flight: InFlight) -> int:
        """Return how many more rows of a partition may be on their way, by the size of the last ones."""
        most = min(self._settings.fire_room, max(1, _BYTES // in_flight.row_bytes))
        return most - in_flight.sending(self._is_aside)

    def _is_aside(self, route: Route) -> bool:
        """Return whether what is in flight on a route takes no room from the rest."""
        return route[2] == HTTP or self._dispatcher.blocked(route)

    def _send(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Send a row unless its route takes nothing; return whether it is sent."""
        if entry.cluster is not None and not self._dispatcher.knows(entry.cluster):
            sentence = (
                f"cluster {entry.cluster} is not configured. Add it to DELAY_CLUSTERS, then send the message again."
            )
            self._dispatcher.refuse(partition, key, entry, Reason.UNKNOWN_CLUSTER, sentence)
            return False
        route = self._dispatcher.route(entry)
        if route not in self._free:
            if self._dispatcher.missing.gone(route):
                sentence = self._dispatcher.missing.absence(route)
                self._dispatcher.refuse(partition, key, entry, Reason.UNKNOWN_TOPIC, sentence)
                return False
            if self._dispatcher.hopeless(route):
                sentence = (
                    f"topic {entry.to} accepted no messages for longer than DELAY_GIVE_UP. Fix it, then send "
                    "the message again."
                )
                self._dispatcher.refuse(partition, key, entry, Reason.UNDELIVERABLE, sentence)
                return False
            if self._dispatcher.blocked(route):
                partition.in_flight.hold(key, entry, route)
                return False
            if self._dispatcher.steady(route):
                self._free.add(route)
        self._dispatcher.add(partition, key, entry, route, now)
        return True

    def _unhold(self, partition: Partition) -> None:
        """Go back to rows that were passed over, when their route is free again."""
        for route in partition.in_flight.held_routes(http=False):
            if not self._dispatcher.blocked(route):
                partition.in_flight.go_back(route)
