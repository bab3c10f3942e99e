"""The connections for batches of transactions, and the requests on them without an answer."""

import asyncio
import contextlib
import itertools
from collections.abc import Collection, Hashable
from typing import Any

import aiokafka.errors as kafka

from app.kafka.wire.live_client import heard


class ConnectionGroup:
    """Connections for batches: on one connection, a broker answers in order, however long each answer takes."""

    def __init__(self, name: str) -> None:
        """Begin with the first connections, numbered 0, of `name`."""
        self._name, self._number = name, 0
        #: Requests without an answer, by the number of their connections.
        self._late: dict[int, set[asyncio.Future[Any]]] = {}

    @property
    def group(self) -> Hashable:
        """The key of the present connections."""
        return self._name, self._number

    def leave(self, late: set[asyncio.Future[Any]]) -> None:
        """Switch to the first connections without late answers, because requests on the present ones are `late`."""
        self._late.setdefault(self._number, set()).update(late)
        self._late = {number: left for number, of in self._late.items() if (left := {t for t in of if not t.done()})}
        self._number = next(number for number in itertools.count() if number not in self._late)


async def late_of(sent: Collection["asyncio.Future[Any]"], limit_s: float) -> set["asyncio.Future[Any]"]:
    """Wait for answers; return the futures without one after `limit_s`."""
    late = set[asyncio.Future[Any]]()
    if len(sent) == 1:  # most often there is one, which needs no task
        [answer] = sent
        with contextlib.suppress(kafka.KafkaError):
            try:
                async with asyncio.timeout(limit_s):
                    await asyncio.shield(answer)
            except TimeoutError:
                late = {answer}
    elif sent:
        _, late = await asyncio.wait(sent, timeout=limit_s)
    for answer in late:
        answer.add_done_callback(heard)
    return late
