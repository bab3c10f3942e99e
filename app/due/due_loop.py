"""The due loop: one a worker. It sleeps until the earliest due time, then gathers what is due across all partitions."""

import asyncio
import logging
from collections import Counter

from app.clock import Clock
from app.deliver.callback_client import Caller
from app.deliver.dispatcher import Courier
from app.due.input_liveness import Sight
from app.due.lateness import Lateness
from app.partition.partition import CALLBACK, Partition, State, Way
from app.settings import Settings
from app.steps.outcomes import Dropped, Unsent
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

    def __init__(self, settings: Settings, clock: Clock, courier: Courier) -> None:
        """Send through `courier` what is due by `clock`."""
        self._settings, self._clock, self._courier = settings, clock, courier
        self._caller = Caller(self.notify)
        self.partitions: dict[int, Partition] = {}
        self._sight: Sight | None = None
        self.lateness = Lateness()
        #: Ways that are free for the rest of what a partition fires, and how many rows of a cycle were how late.
        self._free = set[Way]()
        self._late = Counter[int]()
        self._changed = asyncio.Event()
        self.beat_s = 0.0

    def watch(self, sight: Sight) -> None:
        """Look with `sight` at the partitions before they are fired."""
        self._sight = sight

    def notify(self, _: Partition | None = None) -> None:
        """Look again: something may be due earlier, or there is room again."""
        self._changed.set()

    async def stop(self) -> None:
        """Abandon callbacks on their way."""
        await self._caller.stop()

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
        """Send what is due by `now` as far as there is room; give the seconds until the next look."""
        wait_s = _LONGEST_S
        for partition in list(self.partitions.values()):
            if partition.state is State.LIVE:
                wait_s = min(wait_s, self._fire(partition, now))
        self._send_off()
        return wait_s

    def top_up(self, partition: Partition) -> None:
        """Take along what is due of a partition whose transaction is about to begin: the next one is a beat away."""
        now = self._clock.now_ms()  # before may_fire: it notices jumps
        self._look(asyncio.get_running_loop().time())  # the process may have been stopped since the last cycle
        if partition.state is State.LIVE and self._clock.may_fire():
            self._fire(partition, now)
            self._send_off()

    def _look(self, now_s: float) -> None:
        """See that partitions hear what comes, before any of them is fired."""
        if self._sight is not None:
            self._sight.look(self.partitions.values(), now_s)

    def _send_off(self) -> None:
        self._courier.send()
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
        """Send a partition's rows due by `now` as far as it has room; give the seconds until the next look."""
        self._unhold(partition)
        self._call_held(partition, now)
        if partition.quiet:
            partition.store.low = partition.cursor
        room = self._settings.fire_room - partition.sending(self._is_aside)
        if room <= 0:
            return _LONGEST_S
        limit = min(room, self._settings.fire_batch)
        self._free.clear()
        found, following = partition.store.due(now, partition.cursor, limit)
        for key, raw in found:
            if not partition.busy(key):
                self._take(partition, key, decode(raw), now)
        if found:
            partition.cursor = found[-1][0] + b"\0"
        if following is None:
            return _LONGEST_S
        return max(0.0, (keys.due_of(following) - self._clock.wall_ms()) / 1000)

    def _take(self, partition: Partition, key: bytes, entry: Entry, now: int) -> None:
        """Decide what happens to a due row."""
        late = now - keys.due_of(key)
        if entry.url is not None:
            self._call(partition, key, entry)
        elif entry.commands:  # it was being sent when the process died: what was asked then applies now
            partition.claim(key, entry)
            partition.tell(Unsent(key))
        elif entry.max_late_ms is not None and late > entry.max_late_ms and entry.if_late == "drop":
            partition.claim(key, entry)
            partition.tell(Dropped(key, late))
        elif entry.max_late_ms is not None and late > entry.max_late_ms and entry.if_late == "dead-letter":
            sentence = (
                f"it is {late} ms late, delay-max-late allows {entry.max_late_ms}. Send it again if it still matters."
            )
            self._courier.refuse(partition, key, entry, Reason.TOO_LATE, sentence)
        else:
            self._send(partition, key, entry, now, late)

    def _call(self, partition: Partition, key: bytes, entry: Entry) -> None:
        way = self._caller.way(entry.url or "")
        if self._caller.full(way):
            partition.hold(key, entry, way)
        else:
            self._caller.call(partition, key, entry, way)

    def _call_held(self, partition: Partition, now: int) -> None:
        """Go on with callbacks that were passed over, host by host; what is to be sent does not wait for that."""
        for way in [way for way in partition.held if way[2] == CALLBACK and not self._caller.full(way)]:
            found, _ = partition.store.due(now, partition.held.pop(way), self._settings.fire_batch)
            for key, raw in found:
                if key >= partition.cursor:  # they are still to come
                    break
                entry = decode(raw)
                if entry.url is None or self._caller.way(entry.url) != way or partition.busy(key):
                    continue
                self._call(partition, key, entry)
                if way in partition.held:
                    break
            else:
                if len(found) == self._settings.fire_batch:
                    partition.held[way] = found[-1][0] + b"\0"
                    self.notify()

    def _is_aside(self, way: Way) -> bool:
        """Tell whether what is on its way there takes no room from the rest."""
        return way[2] == CALLBACK or self._courier.blocked(way)

    def _send(self, partition: Partition, key: bytes, entry: Entry, now: int, late: int) -> None:
        if entry.cluster is not None and not self._courier.knows(entry.cluster):
            sentence = f"there is no cluster {entry.cluster} any more. Add it to DELAY_CLUSTERS, then send it again."
            self._courier.refuse(partition, key, entry, Reason.UNKNOWN_CLUSTER, sentence)
            return
        way = self._courier.way(entry)
        if way in self._free:
            self._add(partition, key, entry, way, now, late)
        elif self._courier.gone(way):
            self._courier.refuse(partition, key, entry, Reason.UNKNOWN_TOPIC, self._courier.absence(way))
        elif self._courier.hopeless(way):
            sentence = f"topic {entry.to} takes nothing, longer than DELAY_GIVE_UP. See why, then send it again."
            self._courier.refuse(partition, key, entry, Reason.UNDELIVERABLE, sentence)
        elif self._courier.blocked(way):
            partition.hold(key, entry, way)
        else:
            if self._courier.steady(way):
                self._free.add(way)
            self._add(partition, key, entry, way, now, late)

    def _add(self, partition: Partition, key: bytes, entry: Entry, way: Way, now: int, late: int) -> None:
        self._courier.add(partition, key, entry, way, now)
        self._late[late] += 1

    def _unhold(self, partition: Partition) -> None:
        """Go back to rows that were passed over, when their way is free again."""
        for way in [way for way in partition.held if way[2] != CALLBACK and not self._courier.blocked(way)]:
            partition.cursor = min(partition.cursor, partition.held.pop(way))
