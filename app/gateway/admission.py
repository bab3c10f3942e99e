"""Checks messages' destinations with Kafka, and their namespaces' quotas with the workers' reports."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from app.engine.ingest.admission import changelog_of
from app.engine.ingest.destination_topics import Elsewhere
from app.engine.ingest.policy import Policy
from app.gateway.spool.connection import KafkaConnection
from app.serve.messages.acceptance import Accepted, problem_of
from app.serve.web.problem import Problem
from app.settings.settings import Settings
from punctual.contract.request import Reason, Refusal, Request

#: Brokers learn of a topic that was just created within seconds.
_PATIENCE_S: Final = 3.0


class GatewayAdmission:
    """Refuses missing topics, internal topics of other installations, and messages of full namespaces."""

    def __init__(self, settings: Settings, connection: KafkaConnection, is_full: Callable[[str], bool]) -> None:
        """Use `connection` once it is up; `is_full` returns whether a namespace has used up its quota."""
        self._is_full = is_full
        self._topics, self._allowed = settings.topics, settings.destinations.allowed_topics
        self._connection, self._policy = connection, Policy(settings)
        # Elsewhere is for clusters that may be down. Only the request itself waits for a new topic.
        self._own = Elsewhere(connection.cluster, "", _PATIENCE_S)

    async def check(self, accepted: Sequence[Accepted]) -> list[Problem | None]:
        """Return the known problem of each message, or None."""
        topics = {one.asked.to for one in accepted if _is_for_topic(one.asked)} if self._connection.up else set[str]()
        if topics:
            await self._own.learn({topic for topic in topics if not self._own.partitions(topic)})
            await self._own.neighbours.learn({name for name in map(changelog_of, topics) if name is not None})
        of_id, quotas = self._topics.namespaces.of_id, self._topics.quotas
        namespaces = {of_id(one.asked.id) for one in accepted} if quotas else set[str]()
        full = {name for name in namespaces if name and self._is_full(name)}
        return [self._problem(one, topics, full) for one in accepted]

    def _problem(self, one: Accepted, topics: Collection[str], full: Collection[str]) -> Problem | None:
        if one.asked.op == "schedule" and full and (name := self._topics.namespaces.of_id(one.asked.id)) in full:
            sentence = f"The namespace {name} has used up its quota in DELAY_QUOTAS. Send it again later."
            return Problem("quota", sentence)
        if one.asked.to in topics and _is_for_topic(one.asked):
            try:
                self._judge(one.asked)
            except Refusal as refusal:
                return problem_of(refusal, one.draft)
        return None

    def _judge(self, request: Request) -> None:
        """Raise Refusal for a missing topic, or an internal topic of another installation."""
        partitions = self._own.known(request.to)
        if partitions is not None:
            self._policy.assure_topic(request, partitions)
        rules = self._allowed
        changelog = changelog_of(request.to)
        if changelog is None or request.to in (*rules.get(request.input, ()), *rules.get("*", ())):
            return
        if self._own.neighbours.there(changelog):
            sentence = f"{request.to!r} is an internal topic of the installation with {changelog}"
            raise Refusal(Reason.NOT_ALLOWED, f"{sentence}. Use a topic of your own.")


def _is_for_topic(request: Request) -> bool:
    return request.op == "schedule" and request.cluster is None and "://" not in request.to
