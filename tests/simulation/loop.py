"""An event loop in simulated time: it jumps to the next timer when no callback is ready. No sleep, no threads.

Whatever a worker's code schedules carries the worker with it (a context variable), so a worker can be ended between any
two steps of any task, or frozen and thawed, without help from its code.
"""

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

#: When a run begins, by the brokers' clock: 2026-01-01T00:00:00Z.
EPOCH_MS = 1_767_225_600_000


class Died(BaseException):
    """The process has ended; its code must not run any further."""


class Stuck(Exception):
    """No callback is left to run, or far too many run at the same time."""


class Process:
    """What lives and dies as one: everything that was scheduled from within `context`."""

    def __init__(self, name: str) -> None:
        """Begin with a context of its own."""
        self.name = name
        self.alive, self.frozen = True, False
        #: By how many seconds the clocks of a zone are ahead of UTC by its zone data (zones.py).
        self.zone_s = 0
        #: How many steps it has yet to live, 0 for no end in sight.
        self.fuse = 0
        self.on_fuse: Callable[[], None] = _nothing
        self.parked: list[Handle] = []
        self.context = copy_context()
        self.context.run(CURRENT.set, self)


CURRENT: ContextVar[Process] = ContextVar("process")


def _nothing() -> None:
    pass


class Handle:
    """A callback that waits for its turn, or for its time."""

    __slots__ = ("args", "callback", "cancelled_", "context", "process", "when_")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, when: float = 0.0
    ) -> None:
        """Make a callback of the context's process."""
        self.callback, self.args, self.when_ = callback, args, when
        self.cancelled_ = False
        self.process = CURRENT.get() if context is None else context[CURRENT]
        self.context = self.process.context if context is None else context

    def cancel(self) -> None:
        self.cancelled_ = True

    def cancelled(self) -> bool:
        return self.cancelled_

    def when(self) -> float:
        return self.when_


class Loop:
    """Runs callbacks in the order of their times, then of their scheduling; has the parts of a loop that asyncio
    needs."""

    #: So many callbacks without time going on are an endless loop.
    _TURNS = 200_000

    def __init__(self) -> None:
        """Begin at second zero."""
        self._now = 0.0
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._count = 0
        self._as_asyncio_has_it: Any = self
        self.errors: list[BaseException] = []
        #: Names of dead processes.
        self.dead: set[str] = set()
        self.turns = 0

    # asyncio's interface ---------------------------------------------------------------------------------------------
    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, context, when)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self._as_asyncio_has_it)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> Any:
        loop = self._as_asyncio_has_it
        return asyncio.Task(coro, loop=loop, name=name or CURRENT.get().name, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep the error of a living process's task; errors of dead processes do not matter."""
        error, task = context.get("exception"), context.get("task")
        if error is not None and task is not None and task.get_name() not in self.dead:
            self.errors.append(error)

    # -----------------------------------------------------------------------------------------------------------------
    def run(self, coroutine: Any, process: Process, until: float) -> Any:
        """Run until a coroutine of a process is done.

        Raises Stuck if it is not by second `until`.
        """
        events._set_running_loop(self._as_asyncio_has_it)
        try:
            task = process.context.run(self.create_task, coroutine)
            while not task.done():
                if not self._ready:
                    self._advance(until)
                self._turn()
            return task.result()
        finally:
            events._set_running_loop(None)

    def _advance(self, until: float) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled_:
            heapq.heappop(timers)
        if not timers:
            raise Stuck("no event is left")
        when = timers[0][0]
        if when > until:
            raise Stuck(f"it is not over after {until} s")
        if when > self._now:
            self._now, self.turns = when, 0
        while timers and timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(timers)[2])

    def _turn(self) -> None:
        ready = self._ready
        while ready:
            handle = ready.popleft()
            if handle.cancelled_:
                continue
            self.turns += 1
            if self.turns > self._TURNS:
                raise Stuck("time stands still")
            process = handle.process
            if not process.alive:
                continue
            if process.frozen:
                process.parked.append(handle)
                continue
            if process.fuse:
                process.fuse -= 1
                if not process.fuse:
                    process.on_fuse()
                    ready.appendleft(handle)  # it is still to come, if the process is
                    continue
            try:
                handle.context.run(handle.callback, *handle.args)
            except Died:
                pass
            except Exception as error:  # noqa: BLE001 - checked when the run is over
                self.errors.append(error)

    def thaw(self, process: Process) -> None:
        """Let a frozen process go on where it was."""
        if process.frozen:
            process.frozen = False
            self._ready.extend(process.parked)
            process.parked.clear()
