"""What Kafka and the workers know of messages' destinations and namespaces, as far as they answer."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from app.engine.ingest.admission import changelog_of
from app.engine.ingest.destination_topics import Elsewhere
from app.engine.ingest.policy import Policy
from app.gateway.desk.acceptance import Accepted, problem_of
from app.gateway.spool.connection import KafkaConnection
from app.serve.web.problem import Problem
from app.settings.settings import Settings
from punctual.contract.request import Reason, Refusal, Request

#: Brokers hear of a topic that was just created within seconds.
_PATIENCE_S: Final = 3.0
#: When messages have gone is not known; workers report each second.
_LATER: Final = {"Retry-After": "5"}


class GatewayAdmission:
    """Says no to topics that are not there, to those of other installations, and where a namespace is full."""

    def __init__(self, settings: Settings, connection: KafkaConnection, is_full: Callable[[str], bool]) -> None:
        """Ask by a connection, as soon as there is one; `is_full` says whether a namespace has all that it may."""
        self._is_full = is_full
        self._topics, self._allowed = settings.topics, settings.destinations.allowed_topics
        self._connection, self._policy = connection, Policy(settings)
        # It asks as one asks a cluster that may be away. Nothing but the request itself waits for a new topic.
        self._own = Elsewhere(connection.cluster, "", _PATIENCE_S)

    async def check(self, accepted: Sequence[Accepted]) -> list[Problem | None]:
        """Return for each message why it is not taken, as far as that is known; None for nothing."""
        destinations, full = await self._destinations(accepted), self._full(accepted)
        if not full:
            return destinations
        return [self._quota(one, full) or known for one, known in zip(accepted, destinations, strict=True)]

    async def _destinations(self, accepted: Sequence[Accepted]) -> list[Problem | None]:
        topics = {one.asked.to for one in accepted if _is_asked(one.asked)}
        if not topics or not self._connection.up:
            return [None] * len(accepted)
        await self._own.learn({topic for topic in topics if not self._own.partitions(topic)})
        await self._own.neighbours.learn({name for name in map(changelog_of, topics) if name is not None})
        return [self._judged(one) for one in accepted]

    def _full(self, accepted: Sequence[Accepted]) -> set[str]:
        """Return the namespaces of messages that have no more room, by what the workers have reported."""
        if not self._topics.quotas:
            return set()
        return {name for name in {self._namespace(one) for one in accepted} if name and self._is_full(name)}

    def _namespace(self, one: Accepted) -> str:
        return self._topics.namespaces.of_id(one.asked.id)

    def _quota(self, one: Accepted, full: Collection[str]) -> Problem | None:
        """Return the problem that a full namespace is to a message, None if it is a command, or another's."""
        name = self._namespace(one)
        if one.asked.op != "schedule" or name not in full:
            return None
        sentence = f"The namespace {name} has used up its quota in DELAY_QUOTAS. Send it again later."
        return Problem("quota", sentence, headers=_LATER)

    def _judged(self, one: Accepted) -> Problem | None:
        try:
            if _is_asked(one.asked):
                self._judge(one.asked)
        except Refusal as refusal:
            return problem_of(refusal, one.draft)
        return None

    def _judge(self, asked: Request) -> None:
        """Refuse a topic that is not there, or is another installation's own. Raises Refusal."""
        partitions = self._own.known(asked.to)
        if partitions is not None:
            self._policy.assure_topic(asked, partitions)
        rules = self._allowed
        changelog = changelog_of(asked.to)
        if changelog is None or asked.to in (*rules.get(asked.input, ()), *rules.get("*", ())):
            return
        if self._own.neighbours.there(changelog):
            sentence = (
                f"{asked.to!r} is an internal topic of the installation with {changelog}. Use a topic of your own."
            )
            raise Refusal(Reason.NOT_ALLOWED, sentence)


def _is_asked(asked: Request) -> bool:
    """Return whether our own cluster knows the destination of a request."""
    return asked.op == "schedule" and asked.cluster is None and "://" not in asked.to
