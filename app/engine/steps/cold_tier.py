"""The cold tier, seen from a partition: messages that are due beyond the horizon are parked there.

The tier learns everything from one topic (docs/reference/cold-topic.md): parked messages, and touches, which report
changes of ids that the tier may hold. The last record of an id decides. Shortly before a parked message is due, it
comes back as a request. The worker accepts it only if the tier knew the latest record of its id: a partition remembers
its records to the tier for longer than a returning message can be under way.
"""

from app.engine.steps.step import OutgoingRecord, Step
from app.engine.steps.transitions import ended
from app.engine.topics.internal_topics import TopicLimits
from app.settings.engine import EngineSettings
from app.settings.retention import RetentionSettings
from app.settings.topics import TopicSettings
from punctual.contract import headers as names
from punctual.contract import native
from punctual.contract.events import Event
from punctual.contract.request import Headers, Parked, Reason, Refusal, Request
from tables import ColdMark, Entry, PartitionStore, keys

#: Part of the memory that covers different clocks, and records that are written but cannot be read yet.
_SLACK_MS = 120_000
#: How long the cold topic keeps its records (app/engine/topics/creation.py).
_KEPT_MS = 30 * 86_400_000
#: Bytes that a returning request has in addition to its row: names of headers, and the tier's own headers.
_RETURN_BYTES = 1_024
#: A record that is older than the brokers' time by at most this, or a tenth of the horizon, is judged by its own time.
_FRESH_MS = 60_000


class ColdTier:
    """Parks messages of one partition, and writes touches for ids that the cold tier may hold."""

    def __init__(
        self,
        number: int,
        topics: TopicSettings,
        retention: RetentionSettings,
        engine: EngineSettings,
        store: PartitionStore,
        limits: TopicLimits,
    ) -> None:
        """Park messages of partition `number`, whose rows are in `store`; `limits` has the size of a request."""
        self._number, self._topic, self._store = number, topics.cold, store
        self._horizon_ms, self._memory_ms = retention.horizon_ms, retention.cold_memory_ms
        self._fresh_ms = min(_FRESH_MS, retention.horizon_ms // 10)
        self._largest = limits.request
        #: Whether the cold topic exists: then messages may be parked, even if no further ones are.
        self.there = limits.cold
        #: Whether a step's records and changes are committed together, or there are no records.
        self._whole = engine.exactly_once or not self.there
        #: Returned messages that a step has settled before its commit: the tier has not been notified yet.
        self.owed: list[Request] = []

    # accepted and moved messages -------------------------------------------------------------------------------------
    def park(self, step: Step, due_ms: int, entry: Entry, size: int, source: str, stamp_ms: int) -> bool:
        """Park an accepted message of `size` bytes if it is due beyond the horizon, and return whether it was parked.

        `source` and `stamp_ms` are those of the record that set the due time. If the message stays and the tier may
        hold its id, the tier is notified. Series always stay: they are one row each, however far their next occurrence.
        """
        if entry.series is None and self._is_far(step, due_ms, stamp_ms) and self._comes_back(size):
            self._park(step, due_ms, entry, source, stamp_ms)
            return True
        if entry.id != entry.source or self._was_far(due_ms, stamp_ms):
            self.keep(step, entry.id, source, stamp_ms)
        return False

    def settle(self, step: Step, row: bytes, source: str, stamp_ms: int) -> bool:
        """Park the message that a command (`source`, `stamp_ms`) has moved to `row` if it is due beyond the horizon.

        Return whether it was parked.
        """
        if not self._horizon_ms:
            return False
        due_ms, (entry, raw) = keys.due_of(row), step.changes.puts[row]
        if entry.series is None and self._is_far(step, due_ms, stamp_ms) and self._comes_back(len(raw)):
            step.remove(row, entry)
            self._park(step, due_ms, entry, source, stamp_ms)
            return True
        if self._was_far(due_ms, stamp_ms):
            self.keep(step, entry.id, source, stamp_ms)
        return False

    def _is_far(self, step: Step, due_ms: int, stamp_ms: int) -> bool:
        """Return whether `due_ms` is beyond the horizon, counted from the time of its record while that is fresh.

        A step that is repeated after a crash then decides the same.
        """
        if not self._horizon_ms:
            return False
        now = min(step.broker_ms, max(stamp_ms, step.broker_ms - self._fresh_ms))
        return due_ms > now + self._horizon_ms

    def _comes_back(self, size: int) -> bool:
        """Return whether a message of `size` bytes fits, even uncompressed, into the request that returns it."""
        return size + _RETURN_BYTES <= self._largest

    def _was_far(self, due_ms: int, stamp_ms: int) -> bool:
        """Return whether an earlier step that was lost in a crash may have parked the message."""
        return bool(self._horizon_ms) and due_ms > stamp_ms + self._horizon_ms

    # records for the tier --------------------------------------------------------------------------------------------
    def _park(self, step: Step, due_ms: int, entry: Entry, source: str, stamp_ms: int) -> None:
        """Hand a message over to the tier, which ends its life here."""
        headers = [*native.again(entry, due_ms), (names.OP, b"schedule")]
        if entry.bound is not None:
            headers.append((names.FIRST, b"%d" % entry.bound.first_ms))
        self._tell(step, entry.id, source, stamp_ms, headers, entry.key, entry.value)
        ended(step, "parked", due_ms, entry)

    def keep(self, step: Step, id_: str, source: str, stamp_ms: int) -> None:
        """Notify the tier that this worker has an id now, so that whatever the tier holds of the id is void."""
        self._tell(step, id_, source, stamp_ms, [(names.OP, b"schedule"), (names.ID, id_.encode())], kept=True)
        if self.there:
            step.tell(Event("deferred", id_, step.now_ms, source))

    def defer(self, step: Step, request: Request) -> None:
        """Forward a command to the tier, because its id is not pending here."""
        headers: Headers = [(names.OP, request.op.encode()), (names.ID, request.id.encode())]
        if request.op != "cancel":
            headers.append((names.AT, b"%d" % request.due_ms))
        if request.if_due_ms is not None:
            headers.append((names.IF_DUE, b"%d" % request.if_due_ms))
        self._tell(step, request.id, request.source, request.stamp_ms, headers)
        step.tell(Event("deferred", request.id, step.now_ms, request.source, by=request.source))

    def _tell(
        self,
        step: Step,
        id_: str,
        source: str,
        stamp_ms: int,
        headers: Headers,
        key: bytes | None = None,
        value: bytes | None = None,
        *,
        kept: bool = False,
    ) -> None:
        """Add a record to the cold topic if there is one, and remember that the tier was notified about the id."""
        self._remember(step, id_, source, kept=kept)
        if self.there:
            headers += [
                (names.SOURCE, source.encode()),
                (names.PARKED, b"%d" % stamp_ms),
                (names.EPOCH, b"%d" % self._store.writer),
            ]
            step.send(OutgoingRecord(self._topic, self._number, key, value, headers))

    def _remember(self, step: Step, id_: str, source: str, *, kept: bool, memory_ms: int = 0) -> None:
        step.changes.cold_marks[id_] = ColdMark(source, step.broker_ms + max(memory_ms, self._memory_ms), kept)
        step.changes.size += len(id_.encode()) + len(source) + 32

    # returned messages -----------------------------------------------------------------------------------------------
    def assure_there(self) -> None:
        """Raise Refusal if a request claims to return from a tier that does not exist."""
        if not self.there:
            sentence = f"{names.PARKED} is only for the cold tier, which this installation does not use. Leave it out."
            raise Refusal(Reason.MALFORMED, sentence)

    def confirm(self, step: Step, request: Request) -> None:
        """Notify the tier that a message it returned is stored or settled here, so that the tier can forget it.

        At least once, a step's records are sent before its changelog batch, and the step can still fail. So the next
        step notifies the tier (`settle_debts`). If the process ends before that, the tier returns the message again.
        """
        if self._whole:
            self.keep(step, request.id, request.source, request.stamp_ms)
        else:
            # The tier may return the message again, even after a crash, as long as the cold topic keeps its record.
            self._remember(step, request.id, request.source, kept=True, memory_ms=_KEPT_MS)
            self.owed.append(request)

    def settle_debts(self, step: Step) -> None:
        """Confirm the messages that earlier steps have settled, unless the tier has a later record of the id."""
        owed, self.owed = self.owed, []
        for request in owed:
            mark = self._store.cold_marks.get(request.id)
            if mark is not None and mark.kept and mark.source == request.source:
                self.keep(step, request.id, request.source, request.stamp_ms)

    def is_stale(self, step: Step, parked: Parked) -> bool:
        """Return whether the tier's snapshot is so old that a record to the tier since then may be forgotten."""
        return parked.snapshot_ms < step.broker_ms - self._memory_ms + _SLACK_MS
