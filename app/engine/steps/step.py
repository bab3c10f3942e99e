"""One unit of work on a partition: rows, records, positions (how-it-works.md#how-a-step-is-committed)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from punctual.contract import events
from punctual.contract.request import Reason
from tables import Changes, Entry
from tables.changes import Pairs
from tables.counts import display_name
from tables.entry import VERSION

#: Approximate maximum size of a step, unless one row is larger.
STEP_BYTES = 512 * 1024


class OutgoingRecord(NamedTuple):
    """A record for one of Punctual's own topics."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Step:
    """Changes committed together: events and records are sent first, then its changelog batch, then local rows.

    `ids` maps the ids that the step itself has changed to their rows, for later records of the same step.
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
        """Create an empty step at the worker's time `now_ms`; `broker_ms`, the brokers' time, is the same by default.

        `version` is the version of the rows that it writes.
        """
        self.changes = Changes()
        self.version, self._sent_bytes = version, 0
        #: Events in order, in parts; a part from the native extension stays as it was packed.
        self.events: list[Pairs] = []
        self.sends: list[OutgoingRecord] = []
        #: Dead letters by reason.
        self.rejects = dict[Reason, int]()
        #: Most steps have one kind of event, so only the events of other kinds than the first are counted one by one.
        self._commonest: events.Kind | None = None
        self._others = dict[events.Kind, int]()
        #: The last part, if further single events can be appended to it.
        self._single: list[tuple[bytes, bytes]] | None = None
        self.ids: dict[str, bytes | None] = {}
        self.fired: list[bytes] = []
        #: Rows that stay, and the times of their next tries.
        self.again: dict[bytes, int] = {}
        #: With exactly once, deliveries in the step's transaction; their outcomes are added before the commit.
        self.deliveries: Sequence[Any] = ()
        #: The records that the step has processed, while tracing is on.
        self.read: Sequence[Sequence[Any]] = ()
        self.now_ms = now_ms
        #: The brokers' time continues when the worker's clock jumps, so everything that expires uses it.
        self.broker_ms = now_ms if broker_ms is None else broker_ms

    def __bool__(self) -> bool:
        """Return whether there is anything to commit."""
        return bool(self.changes or self.events or self.sends or self.deliveries)

    @property
    def size(self) -> int:
        """Approximate bytes of the changes, and of records for other topics."""
        return self.changes.size + self._sent_bytes

    def send(self, out: OutgoingRecord) -> None:
        """Add a record for another topic."""
        self.sends.append(out)
        headers = sum(len(name) + len(value or b"") + 4 for name, value in out.headers)
        self._sent_bytes += len(out.key or b"") + len(out.value or b"") + headers + 32

    def reject(self, letter: OutgoingRecord, reason: Reason) -> None:
        """Add a dead letter."""
        self.send(letter)
        self.rejects[reason] = self.rejects.get(reason, 0) + 1

    def tell(self, event: events.Event) -> None:
        """Add an event, in which a URL is reduced to its origin."""
        to = event.to
        if to is not None and "/" in to:  # topic names have no slash
            event.to = display_name(to)
        if event.event is not self._commonest:
            self._another(event.event, 1)
        if self._single is None:
            self._single = []
            self.events.append(self._single)
        self._single.append((event.id.encode(), events.encode(event)))

    def tell_all(self, kind: events.Kind, encoded: Pairs) -> None:
        """Add encoded events of one kind."""
        if kind is not self._commonest:
            self._another(kind, len(encoded))
        self.events.append(encoded)
        self._single = None

    def _another(self, kind: events.Kind, number: int) -> None:
        if self._commonest is None:
            self._commonest = kind
        else:
            self._others[kind] = self._others.get(kind, 0) + number

    @property
    def kinds(self) -> dict[events.Kind, int]:
        """Number of events by kind."""
        counts, others = dict(self._others), sum(self._others.values())
        if self._commonest is not None:
            counts[self._commonest] = counts.get(self._commonest, 0) + sum(map(len, self.events)) - others
        return counts

    def first_known(self, ids: Sequence[str]) -> int | None:
        """Return the index of the first of `ids` that this step changes or has commands for, None if there is none."""
        commands = self.changes.commands
        if self.ids.keys().isdisjoint(ids) and commands.keys().isdisjoint(ids):
            return None
        return next(place for place, id_ in enumerate(ids) if id_ in self.ids or id_ in commands)

    def put(self, key: bytes, entry: Entry, raw: bytes) -> None:
        """Add a new row."""
        self.changes.put(key, entry, raw)
        if entry.url is None:
            self.ids[entry.id] = key

    def put_plain(self, ids: Sequence[str], keys: Sequence[bytes], raws: Sequence[bytes], size: int) -> None:
        """Add new undecoded rows with these ids, `size` bytes in all."""
        self.changes.put_plain(keys, raws, size)
        self.ids.update(zip(ids, keys, strict=True))

    def remove_plain(self, ids: Sequence[str], keys: Sequence[bytes], rows: Sequence[bytes | Entry]) -> None:
        """Remove delivered rows with these ids, encoded or decoded."""
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
