"""What the settings alone cannot tell of a request's destination: what its cluster knows, and how many there are."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from app.engine.ingest.census import Census, Lack
from app.engine.ingest.destination_topics import DestinationTopics, Elsewhere, Neighbours
from app.settings.topics import TopicSettings
from punctual.contract.request import Reason, Refusal, Request
from tables.counts import display_name

if TYPE_CHECKING:
    from app.engine.ingest.hoped_topics import HopedTopics

#: What an installation's own topics are called after its id (operate.md#topics).
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
    """Return the changelog whose being there makes `topic` an installation's own, or None if it has no such name."""
    suffix = next((suffix for suffix in SUFFIXES if topic.endswith(suffix)), None)
    return None if suffix is None else topic.removesuffix(suffix) + _CHANGELOG


class Admission:
    """Knows topics and installations on all clusters, and counts destinations."""

    def __init__(
        self,
        topics: TopicSettings,
        own: DestinationTopics,
        neighbours: Neighbours,
        others: Mapping[str, Elsewhere],
        census: Census,
    ) -> None:
        """Know our `own` cluster's topics and `neighbours`, the `others` by name."""
        self._topics, self._own, self._neighbours = topics, own, neighbours
        self._others, self._census = others, census
        #: What is done with requests for topics that no broker of our own cluster knows; None is nothing.
        self.hopes: HopedTopics | None = None
        #: Topics that were in the census when it was counted last, and that census.
        self._known, self._counted = set[str](), census.known

    def is_known(self, cluster: str | None, topic: str) -> bool:
        """Return whether a destination needs no look-up, because messages wait for it already."""
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
        """Find out about the destinations of requests; clusters that do not answer soon are done without."""
        clusters: dict[str | None, set[tuple[str, int]]] = {}
        for request in wanted:
            if "://" in request.to:
                continue
            clusters.setdefault(request.cluster, set()).add((request.to, request.partition or 0))
        for cluster, topics in clusters.items():
            elsewhere = None if cluster is None else self._others.get(cluster)
            changelogs = {changelog for topic, _ in topics if (changelog := changelog_of(topic)) is not None}
            if elsewhere is not None:
                # A topic may have got more partitions since it was last seen.
                await elsewhere.learn({topic for topic, number in topics if elsewhere.partitions(topic) <= number})
                await elsewhere.neighbours.learn(changelogs)
            elif cluster is None:
                await self._neighbours.learn(changelogs)

    def check(self, request: Request, *, named: bool) -> int | None:
        """Refuse a request for an installation's own topic; one of another installation may be `named` by a setting.

        Gives the topic's number of partitions if it is on another cluster and they are known. Raises Refusal.
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
        """Return whether the topic of a request may be there in a moment; `absent` is called if it is not then."""
        if self.hopes is None or request.recurrence is not None:  # a series would have one occurrence after the other
            return False
        return self.hopes.take(request.to, self._sender(request), absent)

    def _sender(self, request: Request) -> str:
        namespaces = self._topics.namespaces
        return namespaces.of_id(request.id) if namespaces else request.input

    def count(self, request: Request) -> None:
        """Refuse a request for one destination too many.

        Raises Refusal.
        """
        name = display_name(request.to)
        if (
            name is request.to
            and request.cluster is None
            and self._own.partitions(request.to) <= (request.partition or 0)
        ):
            return  # it is refused as unknown
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
            whose = f"the input {sender}"
        else:
            whose = f"the namespace {sender}" if sender else "the group of senders without a namespace"
        return (
            f"{whose} has pending messages for {self._census.held(sender):,} destinations, which is its share of the "
            f"{most:,} that are possible, so {name!r} cannot be added. Send it again when one of these destinations "
            "has no more pending messages, or raise DELAY_MAX_DESTINATIONS."
        )
