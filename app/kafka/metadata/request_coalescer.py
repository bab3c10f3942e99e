"""Many questions in one request: sixteen partitions that begin at once ask the same things of the same brokers."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RequestCoalescer(Generic[K, V]):
    """Asks about single things, of which those that are wanted at the same moment go together."""

    def __init__(self, ask: Callable[[Collection[K]], Awaitable[Mapping[K, V]]]) -> None:
        """Ask with `ask`, which gives an answer for each."""
        self._ask = ask
        self._wanted: dict[K, asyncio.Future[V]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    async def __call__(self, what: K) -> V:
        """Return the answer about one thing, asked for after this call.

        Raises what `ask` raises.
        """
        loop = asyncio.get_running_loop()
        if not self._wanted:
            loop.call_soon(self._go)
        if what not in self._wanted:
            self._wanted[what] = loop.create_future()
        return await asyncio.shield(self._wanted[what])  # it is others' too

    def _go(self) -> None:
        wanted, self._wanted = self._wanted, {}
        task = asyncio.get_running_loop().create_task(self._answer(wanted))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answer(self, wanted: "dict[K, asyncio.Future[V]]") -> None:
        try:
            answers = await self._ask(wanted.keys())
        except BaseException as error:  # noqa: BLE001 - those who wait hear of it
            for future in wanted.values():
                future.set_exception(error)
                future.exception()  # whoever asked may be gone
        else:
            for what, future in wanted.items():
                future.set_result(answers[what])
