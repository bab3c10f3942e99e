"""Destination topics that exist on our own cluster and on others, for ingest."""

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

#: How long a topic counts as absent after a look-up, and the pause before a failed look-up is repeated.
_ABSENT_S = 1.0
#: Brokers hear of a new topic some time after its creation has been confirmed: here up to 110 ms, several times that on
#: a busy machine. So the look-up of a new name is repeated for `_NEW_S`. The partition's ingest waits during that time.
#: It therefore does so at most once per `_NOW_AND_THEN_S`, because senders can make up names.
_NEW_S, _NOW_AND_THEN_S = 0.5, 10.0
_AGAIN_S, _LOOKS = 0.05, 12
#: A partition's ingest stands still while it waits for a cluster, at most for `_ANSWER_S`: a healthy cluster answers
#: within milliseconds. After a timeout, ingest does not wait for this cluster for `_AWAY_S`. Our own cluster gets
#: longer, because a worker can do no work without it.
_ANSWER_S, _OWN_ANSWER_S, _AWAY_S = 0.3, 15.0, 5.0
#: How long the answer to whether another installation exists is kept.
_NEIGHBOURS_S = 10.0
#: Maximum number of absent names to remember, because senders choose the names.
_REMEMBERED = 10_000


class DestinationTopics:
    """The destination topics of a cluster, as far as they have been looked up."""

    def __init__(self, cluster: Cluster, patience_s: float = _NEW_S) -> None:
        """Look topics up on `cluster`; the look-up of a new name is repeated for at most `patience_s`."""
        self._cluster, self._patience_s = cluster, patience_s
        self._absent: dict[str, float] = {}
        self._patient_s = float("-inf")

    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions, 0 if it is not there."""
        return self._cluster.partitions(topic)

    async def learn(self, topics: Iterable[str]) -> None:
        """Look up those `topics` that have not been looked up lately; wait for a broker as long as it takes.

        An absent topic is looked up again after a second. A new name is looked up several times in a row, because the
        topic may have just been created. Invalid names are skipped: some cannot be encoded in a metadata request.
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
        """Ask the cluster which of the `topics` do not exist; return them."""
        while True:
            try:
                return await self._cluster.refresh(topics)
            except aiokafka.errors.KafkaError as error:
                log.warning("no metadata of destinations: %r", error)
                await asyncio.sleep(_ABSENT_S)

    def _patience(self, now: float) -> float:
        """Return until when look-ups of new names may be repeated; all partitions share this time."""
        if now - self._patient_s > _NOW_AND_THEN_S:
            self._patient_s = now
        return self._patient_s + self._patience_s


class Away(Exception):
    """A cluster has not answered in time."""


class Inquiry:
    """Asks a cluster that may be down: waits a short time for an answer, and fails at once for a while after that."""

    def __init__(self, cluster: Cluster, answer_s: float = _ANSWER_S) -> None:
        """Wait for an answer of `cluster` for `answer_s` seconds."""
        self._cluster, self._answer_s = cluster, answer_s
        self._away_until_s = float("-inf")
        self._asking: set[asyncio.Task[Any]] = set()

    async def missing(self, topics: set[str]) -> set[str]:
        """Ask the cluster which of the `topics` do not exist; return them.

        Raises Away if the cluster does not answer.
        """
        return await self._answer(self._cluster.refresh(topics))

    async def id(self) -> str:
        """Return the cluster's own id.

        Raises Away if the cluster does not answer.
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
            task.exception()  # marks the exception as retrieved: the caller may have stopped waiting


class Elsewhere(DestinationTopics):
    """The topics of another cluster, which may be down."""

    def __init__(self, cluster: Cluster, own_id: str, patience_s: float = _NEW_S) -> None:
        """Look topics up on `cluster`; `own_id` is the id of our own cluster."""
        super().__init__(cluster, patience_s)
        self._inquiry, self._own_id, self._id = Inquiry(cluster), own_id, ""
        self.neighbours = Neighbours(self._inquiry, cluster)

    @property
    def ours(self) -> bool:
        """Whether this is known to be our own cluster under another name."""
        return self._id == self._own_id and self._id not in ("", NO_ID)

    def known(self, topic: str) -> int | None:
        """Return a topic's number of partitions, 0 if it does not exist, None if it has not been looked up."""
        return self.partitions(topic) or (0 if topic in self._absent else None)

    async def learn(self, topics: Iterable[str]) -> None:
        """Look up those `topics` that have not been looked up lately; give up if the cluster does not answer soon."""
        with contextlib.suppress(Away):
            if not self._id:
                self._id = await self._inquiry.id()
            await super().learn(topics)

    async def _ask(self, topics: set[str]) -> set[str]:
        return await self._inquiry.missing(topics)


class Neighbours:
    """The other installations on a cluster, found by their changelog topics."""

    def __init__(self, inquiry: Inquiry, cluster: Cluster) -> None:
        """Look changelogs up by `inquiry`, which asks `cluster`."""
        self._inquiry, self._cluster = inquiry, cluster
        #: By changelog: whether it exists, and until when this answer is kept.
        self._known: dict[str, tuple[bool, float]] = {}

    @classmethod
    def at_home(cls, cluster: Cluster) -> "Neighbours":
        """Return the neighbours on our own cluster, with its longer time to answer."""
        return cls(Inquiry(cluster, _OWN_ANSWER_S), cluster)

    def there(self, changelog: str) -> bool | None:
        """Return whether an installation with this changelog exists, None if it has not been looked up."""
        return self._known.get(changelog, (None, 0.0))[0]

    async def learn(self, changelogs: Iterable[str]) -> None:
        """Look up the `changelogs` that have not been looked up lately."""
        now = asyncio.get_running_loop().time()
        wanted = {name for name in changelogs if self._known.get(name, (None, 0.0))[1] <= now}
        if not wanted:
            return
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        with contextlib.suppress(Away):
            await self._inquiry.missing(wanted)
            # A topic that we may not describe counts as absent; whether we may write there is up to the ACLs.
            self._known.update({name: (self._cluster.partitions(name) > 0, now + _NEIGHBOURS_S) for name in wanted})
