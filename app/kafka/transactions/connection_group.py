"""The connections by which the batches of transactions go, and which of their answers are late."""

import asyncio
import contextlib
import itertools
from collections.abc import Collection, Hashable
from typing import Any

import aiokafka.errors as kafka

from app.kafka.wire.live_client import heard


class ConnectionGroup:
    """The connections by which batches go: a broker answers what comes by one in order, however long it takes."""

    def __init__(self, name: str) -> None:
        """Begin with the first."""
        self._name, self._number = name, 0
        #: What has no answer yet, by the number of the connections that it went by.
        self._late: dict[int, set[asyncio.Future[Any]]] = {}

    @property
    def group(self) -> Hashable:
        """Name the present connections."""
        return self._name, self._number

    def leave(self, late: set[asyncio.Future[Any]]) -> None:
        """Use others from now on, for requests on these have no answer: the first on which none is awaited."""
        self._late.setdefault(self._number, set()).update(late)
        self._late = {number: left for number, of in self._late.items() if (left := {t for t in of if not t.done()})}
        self._number = next(number for number in itertools.count() if number not in self._late)


async def late_of(sent: Collection["asyncio.Future[Any]"], limit_s: float) -> set["asyncio.Future[Any]"]:
    """Wait for answers; return those that have not come after `limit_s`."""
    late = set[asyncio.Future[Any]]()
    if len(sent) == 1:  # as most often: no task is needed
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
