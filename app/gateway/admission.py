"""What Kafka knows of messages' destinations: asked while it answers, done without while it does not."""

from collections.abc import Sequence

from app.gateway.acceptance import Accepted, problem_of
from app.gateway.connection import Connection
from app.gateway.problem import Problem
from app.ingest.admission import changelog_of
from app.ingest.destinations import Elsewhere
from app.ingest.policy import Policy
from app.settings import Settings
from punctual.contract.request import Reason, Refusal, Request


class Admission:
    """Says no to topics that are not there, and to those of other installations."""

    def __init__(self, settings: Settings, connection: Connection) -> None:
        """Ask by a connection, as soon as there is one."""
        self._settings, self._connection, self._policy = settings, connection, Policy(settings)
        self._own = Elsewhere(connection.cluster, "")  # it asks as one asks a cluster that may be away

    async def check(self, accepted: Sequence[Accepted]) -> list[Problem | None]:
        """Return for each message what is wrong with its destination, as far as that is known; None for nothing."""
        topics = {one.asked.to for one in accepted if _is_asked(one.asked)}
        if not topics or not self._connection.up:
            return [None] * len(accepted)
        await self._own.learn({topic for topic in topics if not self._own.partitions(topic)})
        await self._own.neighbours.learn({name for name in map(changelog_of, topics) if name is not None})
        return [self._judged(one) for one in accepted]

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
        rules = self._settings.destinations
        changelog = changelog_of(asked.to)
        if changelog is None or asked.to in (*rules.get(asked.input, ()), *rules.get("*", ())):
            return
        if self._own.neighbours.there(changelog):
            sentence = f"{asked.to!r} is an internal topic of the installation with {changelog}. Deliver to yours."
            raise Refusal(Reason.NOT_ALLOWED, sentence)


def _is_asked(asked: Request) -> bool:
    """Return whether our own cluster knows the destination of a request."""
    return asked.op == "schedule" and asked.cluster is None and "://" not in asked.to
