"""Topics that no broker knows yet: each was created a moment ago, or its name is wrong.

A request for one is accepted for now, so that nothing waits for it. If the topic is not there some seconds later, the
message is rejected as what it would have been refused for.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import aiokafka.errors

from app.base.places import Places
from app.kafka.metadata.cluster import Cluster

#: Brokers hear of a new topic within seconds, also on a busy machine. A name is hoped for that long, once a minute.
_HOPE_S, _DENIED_S, _LOOK_S = 5.0, 60.0, 0.25
#: Names that are hoped for at a time, and messages that wait for them; one sender leaves room for others.
_NAMES, _MESSAGES = 200, 20_000
_REMEMBERED: Final = 10_000


@dataclass(slots=True)
class _HopedTopic:
    """A topic that is hoped for, by whom and until when, and what is done for each message if it is not there."""

    sender: str
    until_s: float
    waiting: list[tuple[str, Callable[[], None]]] = field(default_factory=list)


class HopedTopics:
    """Knows the names that may be topics in a moment."""

    def __init__(self, cluster: Cluster) -> None:
        """Hope for topics of a cluster."""
        self._cluster = cluster
        self._names: dict[str, _HopedTopic] = {}
        self._denied: dict[str, float] = {}
        self._name_places, self._message_places = Places(_NAMES), Places(_MESSAGES)
        self._looking: asyncio.Task[None] | None = None

    def take(self, topic: str, sender: str, absent: Callable[[], None]) -> bool:
        """Take a message of a sender for a topic that no broker knows; `absent` is called if it stays like that.

        Returns False if there is no hope, or the sender has its share of what is hoped for.
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
        """Ask for the topics again and again, until each is there or its time is over."""
        while self._names:
            await asyncio.sleep(_LOOK_S)
            names, now_s = list(self._names), asyncio.get_running_loop().time()
            try:
                await self._cluster.refresh(names)
            except aiokafka.errors.KafkaError:
                continue  # nobody knows whether they are there
            for topic in names:
                there = self._cluster.partitions(topic) > 0
                if there or self._names[topic].until_s <= now_s:
                    self._end(topic, there=there)
        self._looking = None

    def _end(self, topic: str, *, there: bool) -> None:
        """Hope for a topic no more."""
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
