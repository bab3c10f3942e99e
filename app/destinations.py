"""Which destination topics are there, for ingest."""

import asyncio
import logging
from collections.abc import Iterable

import aiokafka.errors

from app.contract.request import TOPIC_NAME
from app.kafka.cluster import Cluster

log = logging.getLogger(__name__)

#: How long a topic that is not there is believed not to be, and how soon brokers that do not answer are asked again.
_ABSENT_S = 1.0
#: Brokers hear of a new topic some time after its creation has been confirmed: here up to 110 ms, several times that on
#: a busy machine. So a name that is new is asked for again for so long. The partition's ingest waits meanwhile, so
#: senders who make up names get that only now and then.
_NEW_S, _NOW_AND_THEN_S = 0.5, 10.0
_AGAIN_S = 0.05
#: Names are the senders' choice: what is known of absent ones is bounded.
_REMEMBERED = 10_000


class Destinations:
    """What is known of the destination topics of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        """Ask `cluster`."""
        self._cluster = cluster
        self._absent: dict[str, float] = {}
        self._patient_s = float("-inf")

    def partitions(self, topic: str) -> int:
        """Give a topic's number of partitions, 0 if it is not there."""
        return self._cluster.partitions(topic)

    async def learn(self, topics: Iterable[str]) -> None:
        """Ask the cluster about topics that are not known; waits for a broker as long as it takes.

        A topic that is not there is asked for again after a second; at its first mention several times at once, for it
        may have just been created. One that no topic's name can be is not asked for: some cannot be put into a request.
        """
        now = asyncio.get_running_loop().time
        wanted = {topic for topic in topics if self._absent.get(topic, 0) < now() and TOPIC_NAME.fullmatch(topic)}
        if not wanted:
            return
        missing = await self._ask(wanted)
        if new := missing - self._absent.keys():
            until = self._patience(now())
            while new and now() < until:
                await asyncio.sleep(_AGAIN_S)
                new = await self._ask(new)
            missing = missing & self._absent.keys() | new
        if len(self._absent) > _REMEMBERED:
            self._absent.clear()
        self._absent.update(dict.fromkeys(missing, now() + _ABSENT_S))

    async def _ask(self, topics: set[str]) -> set[str]:
        """Give those of these topics that are not there."""
        while True:
            try:
                return await self._cluster.refresh(topics)
            except aiokafka.errors.KafkaError as error:
                log.warning("no metadata of destinations: %r", error)
                await asyncio.sleep(_ABSENT_S)

    def _patience(self, now: float) -> float:
        """Give until when new names may be asked for again; those of all partitions at the same time."""
        if now - self._patient_s > _NOW_AND_THEN_S:
            self._patient_s = now
        return self._patient_s + _NEW_S
