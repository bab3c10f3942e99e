"""Which destination topics are there, on our own cluster and on others, for ingest."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

import aiokafka.errors

from app.kafka.metadata.cluster import NO_ID, Cluster
from punctual.contract.request import TOPIC_NAME

T = TypeVar("T")

log = logging.getLogger(__name__)

#: How long a topic that is not there is believed not to be, and how soon brokers that do not answer are asked again.
_ABSENT_S = 1.0
#: Brokers hear of a new topic some time after its creation has been confirmed: here up to 110 ms, several times that on
#: a busy machine. So a name that is new is asked for again for so long. The partition's ingest waits meanwhile, so
#: senders who make up names get that only now and then.
_NEW_S, _NOW_AND_THEN_S = 0.5, 10.0
_AGAIN_S, _LOOKS = 0.05, 12
#: So long a cluster is waited for while a partition's ingest stands still: one that is well answers within some ms.
#: After that nobody waits for so long. Without our own cluster nothing goes on anyway.
_ANSWER_S, _OWN_ANSWER_S, _AWAY_S = 0.3, 15.0, 5.0
#: How long it is believed that another installation is there, or is not.
_NEIGHBOURS_S = 10.0
#: Names are the senders' choice: what is known of absent ones is bounded.
_REMEMBERED = 10_000


class DestinationTopics:
    """What is known of the destination topics of a cluster."""

    def __init__(self, cluster: Cluster, patience_s: float = _NEW_S) -> None:
        """Ask `cluster`, for a new name as long as `patience_s` now and then."""
        self._cluster, self._patience_s = cluster, patience_s
        self._absent: dict[str, float] = {}
        self._patient_s = float("-inf")

    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions, 0 if it is not there."""
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
                await asyncio.sleep(max(_AGAIN_S, self._patience_s / _LOOKS))
                new = await self._ask(new)
            missing = missing & self._absent.keys() | new
        if len(self._absent) > _REMEMBERED:
            self._absent.clear()
        self._absent.update(dict.fromkeys(missing, now() + _ABSENT_S))

    async def _ask(self, topics: set[str]) -> set[str]:
        """Return those of these topics that are not there."""
        while True:
            try:
                return await self._cluster.refresh(topics)
            except aiokafka.errors.KafkaError as error:
                log.warning("no metadata of destinations: %r", error)
                await asyncio.sleep(_ABSENT_S)

    def _patience(self, now: float) -> float:
        """Return until when new names may be asked for again; those of all partitions at the same time."""
        if now - self._patient_s > _NOW_AND_THEN_S:
            self._patient_s = now
        return self._patient_s + self._patience_s


class Away(Exception):
    """A cluster has not answered in time."""


class Inquiry:
    """Asks a cluster that may be away: nobody waits for it for long, or again soon."""

    def __init__(self, cluster: Cluster, answer_s: float = _ANSWER_S) -> None:
        """Wait for an answer of `cluster` for so many seconds."""
        self._cluster, self._answer_s = cluster, answer_s
        self._away_until_s = float("-inf")
        self._asking: set[asyncio.Task[Any]] = set()

    async def about(self, topics: set[str]) -> set[str]:
        """Return those of these topics that are not there.

        Raises Away if that cannot be told now.
        """
        return await self._answer(self._cluster.refresh(topics))

    async def id(self) -> str:
        """Return the cluster's own id.

        Raises Away if that cannot be told now.
        """
        return await self._answer(self._cluster.id())

    async def _answer(self, answer: Coroutine[Any, Any, T]) -> T:
        loop = asyncio.get_running_loop()
        if loop.time() < self._away_until_s:
            answer.close()
            raise Away
        task = loop.create_task(answer)
        self._asking.add(task)
        task.add_done_callback(self._answered)
        done, _ = await asyncio.wait([task], timeout=self._answer_s)
        if not done or task.exception() is not None:
            self._away_until_s = loop.time() + _AWAY_S
            raise Away
        return task.result()

    def _answered(self, task: "asyncio.Task[Any]") -> None:
        self._asking.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may not have waited for it


class Elsewhere(DestinationTopics):
    """What is known of the topics of another cluster, which may be away."""

    def __init__(self, cluster: Cluster, own_id: str, patience_s: float = _NEW_S) -> None:
        """Ask `cluster`; our own has the id `own_id`."""
        super().__init__(cluster, patience_s)
        self._inquiry, self._own_id, self._id = Inquiry(cluster), own_id, ""
        self.neighbours = Neighbours(self._inquiry, cluster)

    @property
    def ours(self) -> bool:
        """Whether it is known to be our own cluster by another name."""
        return self._id == self._own_id and self._id not in ("", NO_ID)

    def known(self, topic: str) -> int | None:
        """Return a topic's number of partitions, 0 if it is not there, None if that is not known."""
        return self.partitions(topic) or (0 if topic in self._absent else None)

    async def learn(self, topics: Iterable[str]) -> None:
        """Ask the cluster about topics that are not known, and do without an answer if it gives none soon."""
        with contextlib.suppress(Away):
            if not self._id:
                self._id = await self._inquiry.id()
            await super().learn(topics)

    async def _ask(self, topics: set[str]) -> set[str]:
        return await self._inquiry.about(topics)


class Neighbours:
    """Which other installations are on a cluster: those whose changelog is there."""

    def __init__(self, inquiry: Inquiry, cluster: Cluster) -> None:
        """Learn it by `inquiry`, which asks `cluster`."""
        self._inquiry, self._cluster = inquiry, cluster
        #: By changelog: whether it is there, and until when that is believed.
        self._known: dict[str, tuple[bool, float]] = {}

    @classmethod
    def at_home(cls, cluster: Cluster) -> "Neighbours":
        """Return those on our own cluster, which is waited for."""
        return cls(Inquiry(cluster, _OWN_ANSWER_S), cluster)

    def there(self, changelog: str) -> bool | None:
        """Return whether an installation with this changelog is there, None if that is not known."""
        return self._known.get(changelog, (None, 0.0))[0]

    async def learn(self, changelogs: Iterable[str]) -> None:
        """Ask about installations of which nothing is known, or nothing recent."""
        now = asyncio.get_running_loop().time()
        wanted = {name for name in changelogs if self._known.get(name, (None, 0.0))[1] <= now}
        if not wanted:
            return
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        with contextlib.suppress(Away):
            await self._inquiry.about(wanted)
            # One that may not be described tells nothing; what may be written there is the ACLs' business.
            self._known.update({name: (self._cluster.partitions(name) > 0, now + _NEIGHBOURS_S) for name in wanted})
