"""Events of a key in order although one of them fails: it is tried again where it is, and what is behind it waits."""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from punctual.contract.retry import Backoff

_LOOK_S: Final = 0.1


class Attempts(NamedTuple):
    """How an event is tried: again `on` these exceptions, after a `backoff`, `most` times; None is for ever."""

    on: tuple[type[BaseException], ...]
    backoff: Backoff
    most: int | None


class Agent(Protocol):
    """What events are handled by."""

    @property
    def pausing(self) -> bool:
        """Whether no further attempt may begin: partitions are being shared out, or the app stops."""

    async def handle(self, event: Any) -> None:
        """Handle an event."""

    async def give_up(self, event: Any, failed: int, error: BaseException) -> None:
        """Make an event a dead letter after so many failed attempts."""

    async def ack(self, event: Any) -> None:
        """Acknowledge an event."""

    def rest(self, event: Any) -> None:
        """Hear that nothing is being done with an event that is held: nobody need wait for it."""

    async def crash(self, error: BaseException) -> None:
        """End the process, and do not return before."""


class _Held:
    """An event until it is `acked`: it waits, or is being handled, or is `done` and another one before it not."""

    __slots__ = ("acked", "done", "event")

    def __init__(self, event: Any) -> None:
        self.event, self.done, self.acked = event, False, False


class _Place:
    """What is held of one partition, from one assignment to the next."""

    def __init__(self) -> None:
        self.unacked = deque[_Held]()
        #: What waits for each key of which an event has failed, that one first.
        self.lanes: dict[bytes, deque[_Held]] = {}
        self.gone = asyncio.Event()


class KeyOrder:
    """Handles the events of a Faust agent: one after the other those of a key, and no key waits for another.

    Events are acknowledged in the order of their partition: what is not done yet is read again by whoever comes next,
    with all that came after it, in the same order. At most `limit` are held that are not acknowledged.
    """

    def __init__(self, attempts: Attempts, limit: int, agent: Agent) -> None:
        """Have an agent handle events; nothing is handled after one that has failed in a way that nobody named."""
        self._attempts, self._limit, self._agent = attempts, limit, agent
        self._places: dict[Any, _Place] = {}
        self._tasks = set[asyncio.Task[None]]()
        self._room = asyncio.Event()

    async def take(self, event: Any) -> None:
        """Handle an event, or let it wait for those before it; returns when another one can come."""
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
        """How many events are not acknowledged."""
        return sum(len(place.unacked) for place in self._places.values())

    def forget(self, partitions: Iterable[Any]) -> None:
        """Leave what is held of partitions to whoever reads them now."""
        for partition in partitions:
            place = self._places.pop(partition, None)
            if place is not None:
                place.gone.set()
        self._room.set()

    async def aclose(self) -> None:
        """Leave everything to whoever comes next."""
        self.forget(list(self._places))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _open_lane(self, place: _Place, key: bytes | None, first: _Held, error: BaseException) -> None:
        lane = deque([first])
        if key is not None:  # events without a key have no order among them
            place.lanes[key] = lane
        task = asyncio.get_running_loop().create_task(self._work_off(place, key, lane, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work_off(self, place: _Place, key: bytes | None, lane: deque[_Held], error: BaseException) -> None:
        """Have the events of a lane done, one after the other, the first of which has failed with an error."""
        failed: BaseException | None = error
        try:
            while lane:
                if not await self._is_done(place, lane[0].event, failed):
                    return
                await self._settle(place, lane.popleft())
                failed = None
        except Exception as unforeseen:  # noqa: BLE001 - nobody waits for this task, and the lane must not stand still
            await self._agent.crash(unforeseen)
        if key is not None:
            del place.lanes[key]

    async def _is_done(self, place: _Place, event: Any, error: BaseException | None) -> bool:
        """Try an event, that has failed with an `error` or is new, until it is done; return False if it is not ours."""
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
        """Wait until an attempt may begin; return False if the partition is not ours any more."""
        while after_s or self._agent.pausing:
            with suppress(TimeoutError):
                async with asyncio.timeout(after_s or _LOOK_S):
                    await place.gone.wait()
            if place.gone.is_set():
                break
            after_s = 0.0
        return not place.gone.is_set()

    async def _try(self, event: Any) -> BaseException | None:
        """Handle an event; return the exception after which it is tried again."""
        try:
            await self._agent.handle(event)
        except self._attempts.on as error:
            return error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # something within the handler was cancelled, not this
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
        """Acknowledge an event that is done, as soon as those before it are, and those after it that waited for it."""
        held.done = True
        while place.unacked and place.unacked[0].done and not place.gone.is_set():
            first = place.unacked.popleft()
            first.acked = True
            await self._agent.ack(first.event)
        if not held.acked:
            self._agent.rest(held.event)
        self._room.set()
