"""Events of a key in order although one of them fails: it is tried again where it is, and what is behind it waits."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from punctual.contract.retry import Backoff


class Attempts(NamedTuple):
    """How an event is tried: again `on` these exceptions, after a `backoff`, `most` times; None is for ever."""

    on: tuple[type[BaseException], ...]
    backoff: Backoff
    most: int | None


class _Held:
    """An event that is not acknowledged: it waits, or is being handled, or is `done` and another one before it not."""

    __slots__ = ("done", "event")

    def __init__(self, event: Any) -> None:
        self.event, self.done = event, False


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

    def __init__(
        self,
        attempts: Attempts,
        limit: int,
        *,
        handle: Callable[[Any], Awaitable[object]],
        give_up: Callable[[Any, int, BaseException], Awaitable[None]],
        ack: Callable[[Any], Awaitable[object]],
        crash: Callable[[BaseException], Awaitable[None]],
    ) -> None:
        """Have events handled, given up after their last attempt, and acknowledged.

        `crash` ends the process, and does not return before: nothing may be handled after an event that has failed in
        another way.
        """
        self._attempts, self._limit = attempts, limit
        self._handle, self._give_up, self._ack, self._crash = handle, give_up, ack, crash
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
        else:
            error = await self._try(event)
            if error is None:
                await self._settle(place, held)
            else:
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
        while lane:
            if not await self._is_done(place, lane[0].event, failed):
                return
            await self._settle(place, lane.popleft())
            failed = None
        if key is not None:
            del place.lanes[key]

    async def _is_done(self, place: _Place, event: Any, error: BaseException | None) -> bool:
        """Try an event, that has failed with an `error` or is new, until it is done; return False if it is not ours."""
        message, failed = event.message, 1
        if error is None:
            error = await self._try(event)
        while error is not None and not place.gone.is_set():
            if failed == self._attempts.most:
                await self._give_up(event, failed, error)
                return not place.gone.is_set()
            name = f"{message.topic}-{message.partition}-{message.offset}~{failed + 1}"
            with suppress(TimeoutError):
                async with asyncio.timeout(self._attempts.backoff.delay_ms(failed, name) / 1000):
                    await place.gone.wait()
            if not place.gone.is_set():
                failed += 1
                error = await self._try(event)
        return not place.gone.is_set()

    async def _try(self, event: Any) -> BaseException | None:
        """Handle an event; return the exception after which it is tried again."""
        try:
            await self._handle(event)
        except self._attempts.on as error:
            return error
        except Exception as error:
            await self._crash(error)
            raise
        return None

    async def _settle(self, place: _Place, held: _Held) -> None:
        """Acknowledge an event that is done, as soon as those before it are, and those after it that waited for it."""
        held.done = True
        while place.unacked and place.unacked[0].done and not place.gone.is_set():
            await self._ack(place.unacked.popleft().event)
        self._room.set()
