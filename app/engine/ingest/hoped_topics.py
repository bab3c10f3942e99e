"""Topics that no broker knows yet: each was created a moment ago, or its name is wrong.

A request for such a topic is accepted at first, so that ingest does not wait. If the topic is still missing some
seconds later, the message is rejected for the reason for which the request would have been refused.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import aiokafka.errors

from app.base.places import Places
from app.kafka.metadata.cluster import Cluster

#: Brokers hear of a new topic within seconds, also on a busy machine. So a name has `_HOPE_S` to become a topic; if it
#: does not, requests for it are refused for `_DENIED_S`. `_LOOK_S` is the time between two look-ups.
_HOPE_S, _DENIED_S, _LOOK_S = 5.0, 60.0, 0.25
#: Maximum numbers of unknown names at a time, and of messages that wait for these names; senders share both.
_NAMES, _MESSAGES = 200, 20_000
_REMEMBERED: Final = 10_000


@dataclass(slots=True)
class _HopedTopic:
    """A topic that may appear until `until_s`, its first sender, and for each message what to call if it does not."""

    sender: str
    until_s: float
    waiting: list[tuple[str, Callable[[], None]]] = field(default_factory=list)


class HopedTopics:
    """Looks for topics that may appear in a moment, and reports topics that do not."""

    def __init__(self, cluster: Cluster) -> None:
        """Look for topics on `cluster`."""
        self._cluster = cluster
        self._names: dict[str, _HopedTopic] = {}
        self._denied: dict[str, float] = {}
        self._name_places, self._message_places = Places(_NAMES), Places(_MESSAGES)
        self._looking: asyncio.Task[None] | None = None

    def take(self, topic: str, sender: str, absent: Callable[[], None]) -> bool:
        """Take a message of a sender for a topic that no broker knows; `absent` is called if it does not appear.

        Returns False if the topic has failed to appear lately, or the sender has used up its share of the places.
        """
        now_s = asyncio.get_running_loop().time()
        if self._denied.get(topic, 0.0) > now_s or not self._message_places.take(sender):
            return False
        name = self._names.get(topic)
        if name is None:
            if not self._name_places.take(sender):
                self._message_places.leave(sender)
                return False
            name = self._names[topic] = _HopedTopic(sender, now_s + _HOPE_S)
        name.waiting.append((sender, absent))
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return True

    async def _look(self) -> None:
        """Look the topics up again and again, until each is there or its time is over."""
        while self._names:
            await asyncio.sleep(_LOOK_S)
            names, now_s = list(self._names), asyncio.get_running_loop().time()
            try:
                await self._cluster.refresh(names)
            except aiokafka.errors.KafkaError:
                continue  # without an answer, a topic that is there would look absent
            for topic in names:
                there = self._cluster.partitions(topic) > 0
                if there or self._names[topic].until_s <= now_s:
                    self._end(topic, there=there)
        self._looking = None

    def _end(self, topic: str, *, there: bool) -> None:
        """Stop looking for a topic; unless it is `there`, call `absent` of each message that waits for it."""
        name = self._names.pop(topic)
        self._name_places.leave(name.sender)
        if not there:
            if len(self._denied) >= _REMEMBERED:
                self._denied.clear()
            self._denied[topic] = asyncio.get_running_loop().time() + _DENIED_S
        for sender, absent in name.waiting:
            self._message_places.leave(sender)
            if not there:
                absent()
