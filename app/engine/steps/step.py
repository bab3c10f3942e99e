"""One unit of work on a partition: rows, records, positions (how-it-works.md#how-a-step-is-committed)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from punctual.contract import events
from punctual.contract.request import Reason
from tables import Changes, Entry
from tables.changes import Pairs
from tables.counts import display_name
from tables.entry import VERSION

#: A step has about so many bytes at most, but for one large row.
STEP_BYTES = 512 * 1024


class OutgoingRecord(NamedTuple):
    """A record for one of Punctual's own topics."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Step:
    """What changes together. Its events and records are sent before its changelog batch, that before the local write.

    `ids` shows what the step itself has done to ids, for records further down the same step.
    """

    __slots__ = (
        "_commonest",
        "_others",
        "_sent_bytes",
        "_single",
        "again",
        "broker_ms",
        "changes",
        "deliveries",
        "events",
        "fired",
        "ids",
        "now_ms",
        "read",
        "rejects",
        "sends",
        "version",
    )

    def __init__(self, now_ms: int, broker_ms: int | None = None, version: int = VERSION) -> None:
        """Begin with nothing to do; without `broker_ms` the brokers' time is the worker's.

        `version` is that of the rows that it writes.
        """
        self.changes = Changes()
        self.version, self._sent_bytes = version, 0
        #: Events in their order, in parts: those of a call of the native extension stay as it has packed them.
        self.events: list[Pairs] = []
        self.sends: list[OutgoingRecord] = []
        #: Dead letters by reason.
        self.rejects = dict[Reason, int]()
        #: Most steps have events of one kind: only events of other kinds than the first one's are counted one by one.
        self._commonest: events.Kind | None = None
        self._others = dict[events.Kind, int]()
        #: The part that takes further events that come one by one.
        self._single: list[tuple[bytes, bytes]] | None = None
        self.ids: dict[str, bytes | None] = {}
        self.fired: list[bytes] = []
        #: Rows that stay where they are and are tried again, and when.
        self.again: dict[bytes, int] = {}
        #: Exactly once: deliveries that are part of the step; what becomes of them is in it before it is committed.
        self.deliveries: Sequence[Any] = ()
        #: The records that it has taken in, while traces are on.
        self.read: Sequence[Sequence[Any]] = ()
        self.now_ms = now_ms
        #: The brokers' time goes on as before when the worker's clock jumps: what is remembered for a while goes by it.
        self.broker_ms = now_ms if broker_ms is None else broker_ms

    def __bool__(self) -> bool:
        """Return whether there is anything to commit."""
        return bool(self.changes or self.events or self.sends or self.deliveries)

    @property
    def size(self) -> int:
        """Bytes gathered, about: of changes, and of records for other topics."""
        return self.changes.size + self._sent_bytes

    def send(self, out: OutgoingRecord) -> None:
        """Add a record."""
        self.sends.append(out)
        headers = sum(len(name) + len(value or b"") + 4 for name, value in out.headers)
        self._sent_bytes += len(out.key or b"") + len(out.value or b"") + headers + 32

    def reject(self, letter: OutgoingRecord, reason: Reason) -> None:
        """Add a dead letter."""
        self.send(letter)
        self.rejects[reason] = self.rejects.get(reason, 0) + 1

    def tell(self, event: events.Event) -> None:
        """Add an event; of a URL it names the origin alone."""
        to = event.to
        if to is not None and "/" in to:  # no topic has one in its name
            event.to = display_name(to)
        if event.event is not self._commonest:
            self._another(event.event, 1)
        if self._single is None:
            self._single = []
            self.events.append(self._single)
        self._single.append((event.id.encode(), events.encode(event)))

    def tell_all(self, kind: events.Kind, told: Pairs) -> None:
        """Add events of one kind that are encoded already."""
        if kind is not self._commonest:
            self._another(kind, len(told))
        self.events.append(told)
        self._single = None

    def _another(self, kind: events.Kind, number: int) -> None:
        if self._commonest is None:
            self._commonest = kind
        else:
            self._others[kind] = self._others.get(kind, 0) + number

    @property
    def kinds(self) -> dict[events.Kind, int]:
        """How many events of each kind there are."""
        counts, others = dict(self._others), sum(self._others.values())
        if self._commonest is not None:
            counts[self._commonest] = counts.get(self._commonest, 0) + sum(map(len, self.events)) - others
        return counts

    def first_known(self, ids: Sequence[str]) -> int | None:
        """Return the place of the first of these ids of which this step has something to say, None if there is none."""
        told = self.changes.commands
        if self.ids.keys().isdisjoint(ids) and told.keys().isdisjoint(ids):
            return None
        return next(place for place, id_ in enumerate(ids) if id_ in self.ids or id_ in told)

    def put(self, key: bytes, entry: Entry, raw: bytes) -> None:
        """Add a new row."""
        self.changes.put(key, entry, raw)
        if entry.url is None:
            self.ids[entry.id] = key

    def put_plain(self, ids: Sequence[str], keys: Sequence[bytes], raws: Sequence[bytes], size: int) -> None:
        """Add new rows with these ids, undecoded, of so many bytes."""
        self.changes.put_plain(keys, raws, size)
        self.ids.update(zip(ids, keys, strict=True))

    def remove_plain(self, ids: Sequence[str], keys: Sequence[bytes], rows: Sequence[bytes | Entry]) -> None:
        """Remove delivered rows with these ids, as they came."""
        self.changes.remove_plain(keys, rows)
        self.ids.update(dict.fromkeys(ids))
        self.fired += keys

    def remove(self, key: bytes, entry: Entry) -> None:
        """Remove a row."""
        self.changes.remove(key, entry)
        if entry.url is not None:
            return
        if not entry.replaced and self.ids.get(entry.id, key) == key:
            self.ids[entry.id] = None
