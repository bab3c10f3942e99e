"""Rules for the requests that may be accepted: times, destinations, clusters, limits."""

import fnmatch
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from app.base.http.allow_list import NotListed
from app.engine.ingest.admission import Admission
from app.engine.ingest.quotas import Quotas
from app.engine.steps import callbacks
from app.settings.destinations import DestinationSettings
from app.settings.settings import Settings
from app.settings.topics import TopicSettings
from punctual.contract import headers as names
from punctual.contract.destination import shown
from punctual.contract.headers import REASON
from punctual.contract.record import Record
from punctual.contract.request import TOPIC_NAME, Parked, Reason, Refusal, Request

#: A record's timestamp may be this far ahead of the brokers' clock: `bad-timestamp` (records.md#dead-letters).
AHEAD_MS = 60_000
#: The maximum delay. A due time beyond it is mostly a mistake, such as an epoch time in a header for a delay.
MAX_DELAY_MS = 1_827 * 86_400_000
#: Maximum number of topics that are remembered as allowed, per input.
_REMEMBERED = 10_000

#: Maximum length of a destination and its cluster for which the reason of a refusal is cached. No topic's name is
#: longer, and names that senders make up must not fill the memory.
_LONGEST_KEPT = 512

Read = tuple[Record, Request | Refusal]


class UrlPolicy:
    """Refuses requests for URLs that the settings do not allow, and spells allowed URLs canonically."""

    def __init__(self, topics: TopicSettings, destinations: DestinationSettings) -> None:
        """Take the dialects from `topics` and the allowed URLs from `destinations`."""
        self._topics, self._destinations = topics, destinations

    def forbids(self, source: str, url: str) -> str:
        """Return why requests on the input `source` may not have `url` as their destination, empty if they may."""
        try:
            self._destinations.url_list(source).allowed(url)
        except ValueError as error:
            return f"DELAY_HTTP_DESTINATIONS does not allow this URL for requests on {source}: it {error}"
        return ""

    def check(self, request: Request) -> None:
        """Give the URL of a request its canonical spelling. Raises Refusal if the URL is not allowed."""
        words = self._topics.dialect(request.input).words
        beside = words.partition if request.partition is not None else words.cluster if request.cluster else ""
        if beside:
            raise Refusal(Reason.MALFORMED, f"{words.to} is a URL, but {beside} works only with topics. Leave it out.")
        try:
            request.to = str(self._destinations.url_list(request.input).allowed(request.to).target.url)
        except NotListed as error:
            raise Refusal(
                Reason.NOT_ALLOWED,
                f"DELAY_HTTP_DESTINATIONS does not allow this URL for requests on {request.input}: it {error}. "
                "Add a pattern there.",
            ) from error
        except ValueError as error:
            raise Refusal(Reason.MALFORMED, f"{words.to} {error}.") from error


class Policy:
    """Refuses requests whose time, destination or dedupe window is not allowed, or for which there is no room."""

    def __init__(self, settings: Settings, admission: Admission | None = None, quotas: Quotas | None = None) -> None:
        """Take the rules from the settings; `admission` looks destinations up, `quotas` limit the pending messages."""
        self.quotas = quotas
        self._topics, self._destinations = settings.topics, settings.destinations
        self._clusters, self._admission = settings.kafka.clusters, admission
        self._longest_dedupe_ms = settings.retention.longest_dedupe_ms(settings.topics)
        self._forbidden = lru_cache(maxsize=10_000)(self._look_up)
        self._allowed: dict[str, set[str]] = {}
        self._urls = UrlPolicy(settings.topics, settings.destinations)
        #: Called with a message's id, source and topic to reject it, if its topic was expected but has not appeared.
        self.absent: Callable[[str, str, str], None] = lambda *_: None

    def check(self, request: Request, broker_ms: int) -> None:
        """Raise Refusal if a request's times, destination, cluster or callback are not allowed.

        `broker_ms` is the brokers' time.
        """
        stamp = request.stamp_ms
        if stamp < 0 or stamp > broker_ms + AHEAD_MS:
            raise Refusal(
                Reason.BAD_TIMESTAMP,
                f"the record's timestamp is {'missing' if stamp < 0 else 'more than a minute ahead'}. Correct the "
                "clock of the producer, or let the broker stamp records: message.timestamp.type=LogAppendTime.",
            )
        # A producer's own stamp may be years old.
        ahead_ms = request.due_ms - max(stamp, broker_ms)
        if ahead_ms > MAX_DELAY_MS:
            raise Refusal(
                Reason.TOO_FAR,
                f"it is due in {ahead_ms} ms, but the maximum delay is {MAX_DELAY_MS} ms (five years). Send it later.",
            )
        if request.op == "schedule":
            if request.parked is None:
                self._check_destination(request)
                self._check_dedupe(request)
            else:
                self._check_again(request, request.parked)
                self._admit(request)
            if request.on_failure is not None:
                called = self._topics.dialect(request.input).words.on_failure
                callbacks.check(request.on_failure, self._destinations.callback_list(request.input), called)

    def _check_dedupe(self, request: Request) -> None:
        """Raise Refusal if a request's dedupe window is longer than is allowed."""
        if request.dedupe_ms is not None and request.dedupe_ms > self._longest_dedupe_ms:
            raise Refusal(
                Reason.NOT_ALLOWED,
                f"{names.DEDUPE} is {request.dedupe_ms} ms, but the maximum is {self._longest_dedupe_ms} ms. "
                "Use a shorter time. Operators can set a longer one in DELAY_POLICIES.",
            )

    def _check_destination(self, request: Request) -> None:
        """Raise Refusal if a request's destination is not allowed on its input."""
        forbidden = self._why_forbidden(request.input, request.to, request.cluster)
        if forbidden is not None:
            if "://" not in request.to:
                raise Refusal(*forbidden)
            self._urls.check(request)
        elif request.cluster is None:
            self._allowed.setdefault(request.input, set()).add(request.to)

    def _check_again(self, request: Request, parked: Parked) -> None:
        """Raise Refusal if the destination of a message from the cold tier is not allowed on any of its inputs.

        The tier sends it by the requests topic. Its sender may have used another input: the input of the last record
        about its id, or one of its namespace.
        """
        topics, here = self._topics, request.input
        namespace = topics.namespaces.of_id(request.id)
        of_team = [topic for topic, name in topics.namespaces.inputs.items() if name == namespace]
        refused: Refusal | None = None
        for topic in (here, parked.source.rsplit("-", 2)[0], *of_team):
            if topic not in topics.inputs:
                continue
            request.input = topic
            try:
                self._check_destination(request)
            except Refusal as refusal:
                refused = refused or refusal
            else:
                return
        request.input = here
        if refused is not None:
            raise refused

    def allowed_so_far(self, source: str) -> set[str]:
        """Return the topics of our own cluster that requests on the input `source` were allowed to name so far.

        A caller need not look these up again, which saves most of the time of check().
        """
        allowed = self._allowed.setdefault(source, set())
        if len(allowed) > _REMEMBERED:
            allowed.clear()
        return allowed

    def furthest_ms(self, broker_ms: int) -> int:
        """Return the latest due time (epoch ms) allowed at `broker_ms`, whatever the request's own timestamp."""
        return broker_ms + MAX_DELAY_MS

    def forbids(self, source: str, to: str, cluster: str | None) -> str:
        """Return why the settings forbid a destination for requests on the input `source`, empty if they allow it."""
        if "://" in to:
            return self._urls.forbids(source, to)
        forbidden = self._why_forbidden(source, to, cluster)
        return "" if forbidden is None else forbidden[1]

    def is_known(self, cluster: str | None, topic: str) -> bool:
        """Return whether admitted() need not look up a destination."""
        return self._admission is None or self._admission.is_known(cluster, topic)

    async def admitted(self, reads: list[Read], *, forwarded: bool) -> list[Read]:
        """Look up the destinations of requests; return the list with refusals in place of forbidden requests.

        Messages from the cold tier are only looked up, because check() refuses them. Requests that were `forwarded`
        have been admitted before.
        """
        admission = self._admission
        if admission is None:
            return reads
        doubtful = [
            request
            for _, request in reads
            if isinstance(request, Request)
            and request.op == "schedule"
            and not admission.is_known(request.cluster, request.to)
            and not (forwarded and request.parked is None)
        ]
        if not doubtful:
            return reads
        await admission.learn(doubtful)
        if forwarded:
            return reads
        return [
            (record, self._judged(request) if isinstance(request, Request) else request) for record, request in reads
        ]

    def _judged(self, request: Request) -> Request | Refusal:
        if request.op == "schedule" and request.parked is None:
            try:
                self._admit(request)
            except Refusal as refusal:
                return refusal
        return request

    def _admit(self, request: Request) -> None:
        """Raise Refusal if a request's topic is internal or missing, or there is no room for its destination."""
        if self._admission is None or (request.parked is None and self.is_known(request.cluster, request.to)):
            return
        partitions = self._admission.check(request, named=request.to in self._patterns(request.input))
        if partitions is not None:
            self.assure_topic(request, partitions)
        if request.parked is None:  # a parked message was counted when it was accepted
            self._admission.count(request)

    def hopes(self, request: Request, record: Record, partitions: int) -> bool:
        """Return whether a request is accepted although no broker knows its topic, which may appear in a moment.

        A request that is a dead letter for an unknown topic, sent again, is refused at once.
        """
        if partitions or self._admission is None or request.cluster is not None or request.parked is not None:
            return False
        if (REASON, Reason.UNKNOWN_TOPIC.value.encode()) in record.headers:
            return False
        return self._admission.hope(request, partial(self.absent, request.id, request.source, request.to))

    def assure_topic(self, request: Request, partitions: int) -> None:
        """Raise Refusal if a request's topic, with this number of `partitions`, or its partition does not exist."""
        if partitions > (request.partition or 0) or "://" in request.to:
            return
        where = "" if request.cluster is None else f" on cluster {request.cluster}"
        sentence = no_topic(request.to, where)
        if partitions:
            called = self._topics.dialect(request.input).words.partition
            sentence = (
                f"topic {request.to}{where} has partitions 0 to {partitions - 1}, but {called} is {request.partition}."
            )
        raise Refusal(Reason.UNKNOWN_TOPIC, sentence)

    def _patterns(self, source: str) -> Sequence[str]:
        rules = self._destinations.allowed_topics
        return rules.get(source, ()) + rules.get("*", ())

    def _why_forbidden(self, source: str, to: str, cluster: str | None) -> tuple[Reason, str] | None:
        """Return why a destination is forbidden, or None if it is allowed; cached, unless the name is too long."""
        known = len(to) + len(cluster or "") <= _LONGEST_KEPT
        return (self._forbidden if known else self._look_up)(source, to, cluster)

    def _look_up(self, source: str, to: str, cluster: str | None) -> tuple[Reason, str] | None:
        """Return why a destination is unknown, invalid or forbidden, as a sentence; None if it is allowed."""
        if cluster is not None and cluster not in self._clusters:
            called = self._topics.dialect(source).words.cluster
            sentence = f"there is no cluster {cluster[:64]!r}. Add it to DELAY_CLUSTERS, or leave out {called}."
            return Reason.UNKNOWN_CLUSTER, sentence
        if not TOPIC_NAME.fullmatch(to):
            named = to if shown(to) == to else f"{shown(to)}…"
            sentence = f"{named[:64]!r} is not a valid topic name. Use letters, digits, dots, underscores and hyphens."
            return Reason.UNKNOWN_TOPIC, sentence
        patterns = self._patterns(source)
        own = cluster is None and to in self._topics.internal_topics
        if own or (to.startswith("__") and to not in patterns):
            return Reason.NOT_ALLOWED, f"{to!r} is an internal topic. Use a topic of your own."
        if any(fnmatch.fnmatchcase(to, pattern) for pattern in patterns):
            return None
        sentence = f"DELAY_DESTINATIONS does not allow topic {to!r} for requests on {source}. Add it there."
        return Reason.NOT_ALLOWED, sentence


def no_topic(to: str, where: str = "") -> str:
    """Return the error message for a topic that does not exist."""
    return (
        f"topic {to[:249]!r}{where} does not exist, or this worker has no permission for it. Create it, or grant "
        "WRITE on it to the worker's principal. Then send the request again."
    )
