"""Handles events in the order of their keys: a failed event is tried again in place, and later ones of its key wait."""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from punctual.contract.retry import Backoff

_LOOK_S: Final = 0.1


class Attempts(NamedTuple):
    """The attempts for an event: repeated `on` these exceptions after a `backoff`, `most` times; None is for ever."""

    on: tuple[type[BaseException], ...]
    backoff: Backoff
    most: int | None


class Agent(Protocol):
    """The handler of events."""

    @property
    def pausing(self) -> bool:
        """Whether no further attempt may begin, because of a rebalance or a stopping app."""

    async def handle(self, event: Any) -> None:
        """Handle an event."""

    async def give_up(self, event: Any, failed: int, error: BaseException) -> None:
        """Make an event a dead letter after `failed` attempts."""

    async def ack(self, event: Any) -> None:
        """Acknowledge an event."""

    def rest(self, event: Any) -> None:
        """Note that a held event is not being handled now, so that a rebalance need not wait for it."""

    async def crash(self, error: BaseException) -> None:
        """End the process; does not return before."""


class _Held:
    """An event until it is `acked`: it waits, is being handled, or is `done` while an earlier one is not."""

    __slots__ = ("acked", "done", "event")

    def __init__(self, event: Any) -> None:
        self.event, self.done, self.acked = event, False, False


class _Place:
    """The held events of one partition, from one assignment to the next."""

    def __init__(self) -> None:
        self.unacked = deque[_Held]()
        #: For each key with a failed event, that event and the waiting ones after it.
        self.lanes: dict[bytes, deque[_Held]] = {}
        self.gone = asyncio.Event()


class KeyOrder:
    """Handles the events of a Faust agent, one at a time per key; different keys do not wait for each other.

    Events are acknowledged in the order of their partition: after a crash, the next owner reads the first unfinished
    event again, with all later ones, in the same order. At most `limit` unacknowledged events are held.
    """

    def __init__(self, attempts: Attempts, limit: int, agent: Agent) -> None:
        """Handle events with `agent`; an exception that is not in `attempts.on` ends the process."""
        self._attempts, self._limit, self._agent = attempts, limit, agent
        self._places: dict[Any, _Place] = {}
        self._tasks = set[asyncio.Task[None]]()
        self._room = asyncio.Event()

    async def take(self, event: Any) -> None:
        """Handle an event, or hold it behind earlier ones of its key; returns when there is room for another."""
        place = self._places.setdefault(event.message.tp, _Place())
        held, key = _Held(event), event.message.key
        place.unacked.append(held)
        if key in place.lanes:
            place.lanes[key].append(held)
            self._agent.rest(event)
        else:
            error = await self._try(event)
            if error is None:
                await self._settle(place, held)
            else:
                self._agent.rest(event)
                self._open_lane(place, key, held, error)
        while self.held >= self._limit:
            self._room.clear()
            await self._room.wait()

    @property
    def held(self) -> int:
        """The number of unacknowledged events."""
        return sum(len(place.unacked) for place in self._places.values())

    def forget(self, partitions: Iterable[Any]) -> None:
        """Drop the held events of revoked partitions, which their next owners read."""
        for partition in partitions:
            place = self._places.pop(partition, None)
            if place is not None:
                place.gone.set()
        self._room.set()

    async def aclose(self) -> None:
        """Drop all held events, which the next owner reads."""
        self.forget(list(self._places))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _open_lane(self, place: _Place, key: bytes | None, first: _Held, error: BaseException) -> None:
        lane = deque([first])
        if key is not None:  # events without a key have no order
            place.lanes[key] = lane
        task = asyncio.get_running_loop().create_task(self._work_off(place, key, lane, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work_off(self, place: _Place, key: bytes | None, lane: deque[_Held], error: BaseException) -> None:
        """Handle the events of a lane one after the other; `error` is the exception of the first event."""
        failed: BaseException | None = error
        try:
            while lane:
                if not await self._is_done(place, lane[0].event, failed):
                    return
                await self._settle(place, lane.popleft())
                failed = None
        except Exception as unforeseen:  # noqa: BLE001 - no task awaits this one, and the lane must not stall
            await self._agent.crash(unforeseen)
        if key is not None:
            del place.lanes[key]

    async def _is_done(self, place: _Place, event: Any, error: BaseException | None) -> bool:
        """Try an event, which has failed with `error` or is new, until it is done; return False if it is revoked."""
        message, failed = event.message, 1
        if error is None and await self._may_begin(place):
            error = await self._try(event)
        while error is not None and not place.gone.is_set():
            self._agent.rest(event)
            if failed == self._attempts.most:
                await self._agent.give_up(event, failed, error)
                break
            name = f"{message.topic}-{message.partition}-{message.offset}~{failed + 1}"
            if await self._may_begin(place, self._attempts.backoff.delay_ms(failed, name) / 1000):
                failed += 1
                error = await self._try(event)
        return not place.gone.is_set()

    async def _may_begin(self, place: _Place, after_s: float = 0.0) -> bool:
        """Wait until an attempt may begin; return False if the partition is revoked."""
        while after_s or self._agent.pausing:
            with suppress(TimeoutError):
                async with asyncio.timeout(after_s or _LOOK_S):
                    await place.gone.wait()
            if place.gone.is_set():
                break
            after_s = 0.0
        return not place.gone.is_set()

    async def _try(self, event: Any) -> BaseException | None:
        """Handle an event; return the exception for which it is tried again, or None."""
        try:
            await self._agent.handle(event)
        except self._attempts.on as error:
            return error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # the handler cancelled a task of its own, not this one
                await self._crash(event, error)
            raise
        except Exception as error:
            await self._crash(event, error)
            raise
        return None

    async def _crash(self, event: Any, error: BaseException) -> None:
        self._agent.rest(event)
        await self._agent.crash(error)

    async def _settle(self, place: _Place, held: _Held) -> None:
        """Mark an event as done, and acknowledge all done events at the head of its partition."""
        held.done = True
        while place.unacked and place.unacked[0].done and not place.gone.is_set():
            first = place.unacked.popleft()
            first.acked = True
            await self._agent.ack(first.event)
        if not held.acked:
            self._agent.rest(held.event)
        self._room.set()
