"""Combines requests: sixteen partitions that begin at once need the same answers from the same brokers."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RequestCoalescer(Generic[K, V]):
    """Combines single questions of the same moment into one request."""

    def __init__(self, ask: Callable[[Collection[K]], Awaitable[Mapping[K, V]]]) -> None:
        """Combine questions into calls of `ask`, which returns an answer for each."""
        self._ask = ask
        self._wanted: dict[K, asyncio.Future[V]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    async def __call__(self, what: K) -> V:
        """Return the answer about `what`, requested after this call.

        Raises the errors of `ask`.
        """
        loop = asyncio.get_running_loop()
        if not self._wanted:
            loop.call_soon(self._go)
        if what not in self._wanted:
            self._wanted[what] = loop.create_future()
        return await asyncio.shield(self._wanted[what])  # other callers may share the future

    def _go(self) -> None:
        wanted, self._wanted = self._wanted, {}
        task = asyncio.get_running_loop().create_task(self._answer(wanted))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answer(self, wanted: "dict[K, asyncio.Future[V]]") -> None:
        try:
            answers = await self._ask(wanted.keys())
        except BaseException as error:  # noqa: BLE001 - the waiting callers get the error
            for future in wanted.values():
                future.set_exception(error)
                future.exception()  # the caller may have been cancelled
        else:
            for what, future in wanted.items():
                future.set_result(answers[what])
