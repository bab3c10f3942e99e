"""Room left in the quotas of namespaces: own partitions are counted exactly, others as their reports say."""

from collections.abc import Callable, Collection, Container, Mapping
from typing import Protocol

from app.engine.ingest.request_rates import RequestRates
from app.settings.quotas import Quota, by_namespace
from app.settings.topics import TopicSettings
from punctual.contract import headers as names
from punctual.contract.namespaces import Namespaces
from punctual.contract.request import Reason, Refusal
from tables import NamespaceRule, NamespaceShare, keys

#: Seconds between counts that include other workers' reports; between two counts, admitted messages are subtracted.
_COUNT_EVERY_S = 0.5
_ENDLESS = 1 << 62
_NONE = NamespaceShare()


class _QuotaShares(Protocol):
    @property
    def known(self) -> Mapping[str, NamespaceShare]: ...


class QuotaStore(Protocol):
    """A partition of the table."""

    @property
    def offset(self) -> int:
        """The changelog offset, which changes with each step."""
        ...

    @property
    def shares(self) -> _QuotaShares | None:
        """Pending messages per namespace."""
        ...


class _NamespaceUse(Protocol):
    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def remembered(self) -> int: ...


class _QuotaProgress(Protocol):
    @property
    def namespaces(self) -> Mapping[str, _NamespaceUse]: ...
    @property
    def requests(self) -> Mapping[str, Mapping[str, int]]: ...


class QuotaReport(Protocol):
    """Another worker's report on a partition."""

    @property
    def progress(self) -> _QuotaProgress:
        """The figures of the report."""
        ...


class _NamespaceRoom:
    """The room that a namespace has left, counted at `counted_s`."""

    __slots__ = ("bytes", "counted_s", "messages", "remembered")

    def __init__(self, messages: int, size: int, remembered: int, counted_s: float) -> None:
        self.messages, self.bytes, self.remembered, self.counted_s = messages, size, remembered, counted_s


class Quotas:
    """Refuses messages beyond the quotas of namespaces.

    A quota can be exceeded by as much as other workers admit before their reports arrive: about three seconds.
    """

    def __init__(
        self,
        topics: TopicSettings,
        stores: Mapping[int, QuotaStore],
        restoring: Container[int],
        reports: Mapping[int, QuotaReport],
        now: Callable[[], float],
    ) -> None:
        """Take the quotas from `topics`; `stores` are the worker's own partitions, some still `restoring`.

        `reports` are of all partitions, `now` returns seconds.
        """
        self._restoring = restoring
        self._limits = by_namespace(topics.quotas, topics.namespaces)
        self._of_id, self._stores, self._reports, self._now = topics.namespaces.of_id, stores, reports, now
        self._room: dict[str, _NamespaceRoom] = {}
        #: By partition: the changelog offset, and the messages and bytes admitted since, which the table lacks so far.
        self._admitted: dict[int, tuple[int, dict[str, list[int]]]] = {}
        rates = {name: quota.rate for name, quota in self._limits.items() if quota.rate is not None}
        self.rates = RequestRates(topics.namespaces, rates, stores, reports) if rates else None

    def admit(self, number: int, id_: str, size: int, before: int | None = None) -> None:
        """Count a message of `size` bytes in partition `number`; it may replace one of `before` bytes.

        A replacement does not count as another message, only its additional bytes count. Raises Refusal if a quota is
        used up.
        """
        name = self._of_id(id_)
        quota = self._limits.get(name)
        messages, size = (1, size) if before is None else (0, size - before)
        if quota is None or (not messages and size <= 0):
            return
        room = self._room.get(name)
        if (
            room is None
            or messages > room.messages
            or size > room.bytes
            or self._now() - room.counted_s >= _COUNT_EVERY_S
        ):
            room = self._room[name] = self._count(name, quota)
        if messages > room.messages:
            raise Refusal(Reason.QUOTA, _sentence(name, f"{quota.messages:,} pending messages"))
        if size > room.bytes:
            raise Refusal(Reason.QUOTA, _sentence(name, f"{quota.bytes:,} bytes of pending messages"))
        room.messages -= messages
        room.bytes -= size
        self._note(number, name, messages, size)

    def remember(self, id_: str) -> None:
        """Count an id that will be remembered. Raises Refusal if its namespace has used up this quota."""
        name = self._of_id(id_)
        quota = self._limits.get(name)
        if quota is None or quota.remembered_limit is None:
            return
        room = self._room.get(name)
        if room is None or self._now() - room.counted_s >= _COUNT_EVERY_S:  # a recount misses this step's ids
            room = self._room[name] = self._count(name, quota)
        if room.remembered <= 0:
            sentence = (
                f"the quota of {quota.remembered_limit:,} remembered ids of the namespace {name} is used up "
                f"(DELAY_QUOTAS). Send it again later or without {names.DEDUPE}, or raise the quota (remembered)."
            )
            raise Refusal(Reason.QUOTA, sentence)
        room.remembered -= 1

    def is_full(self, name: str) -> bool:
        """Return whether a namespace has no room for another message."""
        quota = self._limits.get(name)
        if quota is None:
            return False
        room = self._count(name, quota)
        return room.messages <= 0 or room.bytes <= 0

    def _note(self, number: int, name: str, messages: int, size: int) -> None:
        offset = self._stores[number].offset
        since, admitted = self._admitted.get(number, (-1, {}))
        if since != offset:
            admitted = {}
            self._admitted[number] = offset, admitted
        noted = admitted.setdefault(name, [0, 0])
        noted[0] += messages
        noted[1] += size

    def _count(self, name: str, quota: Quota) -> _NamespaceRoom:
        """Return the room that the quota leaves, by the stores, the admitted messages and the reports."""
        messages = size = remembered = 0
        for number, store in self._stores.items():
            if number in self._restoring:
                continue
            share = store.shares.known.get(name, _NONE) if store.shares is not None else _NONE
            messages, size = messages + share.messages, size + share.bytes
            remembered += share.remembered
            since, admitted = self._admitted.get(number, (-1, {}))
            if since == store.offset and name in admitted:
                messages, size = messages + admitted[name][0], size + admitted[name][1]
        for number, report in self._reports.items():
            if number not in self._stores or number in self._restoring:
                reported = report.progress.namespaces.get(name, _NONE)
                messages, size = messages + reported.messages, size + reported.bytes
                remembered += reported.remembered
        most, largest, ids = (
            _ENDLESS if limit is None else limit for limit in (quota.messages, quota.bytes, quota.remembered_limit)
        )
        return _NamespaceRoom(most - messages, largest - size, ids - remembered, self._now())


def namespace_rule(namespaces: Namespaces, inputs: Collection[str]) -> NamespaceRule | None:
    """Return the rule by which the table finds a message's namespace or input, None if all are of one sender."""
    if namespaces:
        return NamespaceRule(namespaces.of_id, str(namespaces))
    if len(inputs) == 1:
        return None
    return NamespaceRule(namespaces.of_id, ",".join(sorted(inputs)), {keys.topic_crc(topic): topic for topic in inputs})


def _sentence(name: str, what: str) -> str:
    return (
        f"the quota of {what} of the namespace {name} is used up (DELAY_QUOTAS). Send it again when some of its "
        "messages have been delivered or cancelled, or raise the quota."
    )
