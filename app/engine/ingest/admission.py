"""Admission of destinations by the topics of their cluster and by the number of destinations."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from app.engine.ingest.census import Census, Lack
from app.engine.ingest.destination_topics import DestinationTopics, Elsewhere, Neighbours
from app.settings.topics import TopicSettings
from punctual.contract.request import Reason, Refusal, Request
from tables.counts import display_name

if TYPE_CHECKING:
    from app.engine.ingest.hoped_topics import HopedTopics

#: Suffixes of an installation's own topics, after its id (operate.md#topics).
SUFFIXES = (
    "-requests",
    "-forwards",
    "-events",
    "-progress",
    "-controls",
    "-queues",
    "-layout",
    "-cold",
    "-dead-letters",
    "-audit",
    "-jobs",
    "-receipts",
    "-delays-changelog",
)
_CHANGELOG = "-delays-changelog"


def changelog_of(topic: str) -> str | None:
    """Return the changelog whose existence makes `topic` an internal topic, None if the name cannot be internal."""
    suffix = next((suffix for suffix in SUFFIXES if topic.endswith(suffix)), None)
    return None if suffix is None else topic.removesuffix(suffix) + _CHANGELOG


class Admission:
    """Admits requests by the topics and installations on all clusters, and counts destinations."""

    def __init__(
        self,
        topics: TopicSettings,
        own: DestinationTopics,
        neighbours: Neighbours,
        others: Mapping[str, Elsewhere],
        census: Census,
    ) -> None:
        """Look up topics of our `own` cluster and its `neighbours`, and `others` by cluster name; count in `census`."""
        self._topics, self._own, self._neighbours = topics, own, neighbours
        self._others, self._census = others, census
        #: Takes requests for topics that no broker of our own cluster knows; with None these are refused.
        self.hopes: HopedTopics | None = None
        #: Topics found in the census since its last count, and that census.
        self._known, self._counted = set[str](), census.known

    def is_known(self, cluster: str | None, topic: str) -> bool:
        """Return whether a destination needs no look-up, because it has pending messages already."""
        if cluster is not None:
            return False
        known = self._census.known
        if known is not self._counted:
            self._counted, self._known = known, set()
        if topic in self._known:
            return True
        if "://" in topic:
            return display_name(topic) in known
        if topic not in known or topic.endswith(SUFFIXES):
            return False
        self._known.add(topic)
        return True

    async def learn(self, wanted: Collection[Request]) -> None:
        """Look up the destinations of the `wanted` requests; other clusters that do not answer soon are skipped."""
        clusters: dict[str | None, set[tuple[str, int]]] = {}
        for request in wanted:
            if "://" in request.to:
                continue
            clusters.setdefault(request.cluster, set()).add((request.to, request.partition or 0))
        for cluster, topics in clusters.items():
            elsewhere = None if cluster is None else self._others.get(cluster)
            changelogs = {changelog for topic, _ in topics if (changelog := changelog_of(topic)) is not None}
            if elsewhere is not None:
                # A topic may have got more partitions since its last look-up.
                await elsewhere.learn({topic for topic, number in topics if elsewhere.partitions(topic) <= number})
                await elsewhere.neighbours.learn(changelogs)
            elif cluster is None:
                await self._neighbours.learn(changelogs)

    def check(self, request: Request, *, named: bool) -> int | None:
        """Return the number of partitions of a request's topic on another cluster, None if not known or on our own.

        Raises Refusal if the topic is internal to an installation. Another installation's topic is allowed if the
        settings name it in full (`named`).
        """
        if "://" in request.to:
            return None
        elsewhere = None if request.cluster is None else self._others.get(request.cluster)
        if elsewhere is not None and elsewhere.ours and request.to in self._topics.internal_topics:
            sentence = (
                f"{request.to!r} is an internal topic, because the cluster {request.cluster} is the installation's "
                "own. Use a topic of your own."
            )
            raise Refusal(Reason.NOT_ALLOWED, sentence)
        changelog = None if named else changelog_of(request.to)
        if changelog is not None:
            there = (self._neighbours if elsewhere is None else elsewhere.neighbours).there(changelog)
            if there:
                sentence = (
                    f"{request.to!r} is an internal topic of the installation with {changelog}. "
                    "Use a topic of your own."
                )
                raise Refusal(Reason.NOT_ALLOWED, sentence)
            if there is None:
                sentence = (
                    f"{request.to!r} may be an internal topic of another installation, and the cluster does not answer "
                    "at the moment. Send it again later, or list the topic in DELAY_DESTINATIONS by its full name, "
                    "without a pattern."
                )
                raise Refusal(Reason.NOT_ALLOWED, sentence)
        return None if elsewhere is None else elsewhere.known(request.to)

    def hope(self, request: Request, absent: Callable[[], None]) -> bool:
        """Return whether the topic of a request may appear in a moment; `absent` is called if it does not."""
        if self.hopes is None or request.recurrence is not None:  # rejecting one occurrence would not end a series
            return False
        return self.hopes.take(request.to, self._sender(request), absent)

    def _sender(self, request: Request) -> str:
        namespaces = self._topics.namespaces
        return namespaces.of_id(request.id) if namespaces else request.input

    def count(self, request: Request) -> None:
        """Count the destination of a request.

        Raises Refusal if there is no room for another destination.
        """
        name = display_name(request.to)
        if (
            name is request.to
            and request.cluster is None
            and self._own.partitions(request.to) <= (request.partition or 0)
        ):
            return  # the request will be refused because of its unknown topic
        sender = self._sender(request)
        lack = self._census.admit(name, sender)
        if lack is not None:
            raise Refusal(Reason.TOO_MANY_DESTINATIONS, self._sentence(lack, name, sender))

    def _sentence(self, lack: Lack, name: str, sender: str) -> str:
        most = self._census.limit
        if lack is Lack.ALL:
            return (
                f"{most:,} destinations have pending messages, which is the maximum, so {name!r} cannot be added. "
                "Send it again when a destination has no more pending messages, or raise DELAY_MAX_DESTINATIONS."
            )
        if not self._topics.namespaces:
            owner = f"the input {sender}"
        else:
            owner = f"the namespace {sender}" if sender else "the group of senders without a namespace"
        return (
            f"{owner} has pending messages for {self._census.held(sender):,} destinations, which is its share of "
            f"the {most:,} that are possible, so {name!r} cannot be added. Send it again when one of these "
            "destinations has no more pending messages, or raise DELAY_MAX_DESTINATIONS."
        )
