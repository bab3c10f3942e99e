"""The cold tier as a partition sees it: what is due beyond the horizon is parked there.

All that the tier knows comes from one topic (docs/reference/cold-topic.md): parked messages, and touches, which say
what happens to an id that it may have something of. The last record of an id decides. Shortly before a parked message
is due, it comes back as a request. It is taken in only if the tier knew the latest about its id: what it was told is
remembered for longer than what it sends may be on its way.
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

#: Of what is remembered, so much is for clocks that differ, and for records that are written but not readable yet.
_SLACK_MS = 120_000
#: As long as the cold topic keeps what is on it (app/engine/topics/creation.py).
_KEPT_MS = 30 * 86_400_000
#: What a request has beside what a row holds: the names of headers, and what the tier says of the message.
_RETURN_BYTES = 1_024
#: A record may be so much older than the brokers' time, or a tenth of the horizon, and is still judged by its own.
_FRESH_MS = 60_000


class ColdTier:
    """Parks messages of one partition, and tells the cold tier what concerns the ids that it may hold."""

    def __init__(
        self,
        number: int,
        topics: TopicSettings,
        retention: RetentionSettings,
        engine: EngineSettings,
        store: PartitionStore,
        limits: TopicLimits,
    ) -> None:
        """Serve partition `number`."""
        self._number, self._topic, self._store = number, topics.cold, store
        self._horizon_ms, self._memory_ms = retention.horizon_ms, retention.cold_memory_ms
        self._fresh_ms = min(_FRESH_MS, retention.horizon_ms // 10)
        self._largest = limits.request
        #: Whether the cold topic is there: messages may be parked, even if no more are.
        self.there = limits.cold
        #: Whether a step's records are there with its changes or not at all, or are none.
        self._whole = engine.exactly_once or not self.there
        #: What came back and is settled here, by a step that is being committed: the tier does not know yet.
        self.owed: list[Request] = []

    # what is accepted or moved here ----------------------------------------------------------------------------------
    def park(self, step: Step, due_ms: int, entry: Entry, size: int, source: str, stamp_ms: int) -> bool:
        """Park a message that was accepted, of `size` bytes, if it is due beyond the horizon; return whether it is.

        `source` and `stamp_ms` are of the record that made it due then. Of one that stays the tier hears if it may have
        something of its id. What recurs always stays: a series is one row, however far its next occurrence.
        """
        if entry.series is None and self._is_far(step, due_ms, stamp_ms) and self._comes_back(size):
            self._park(step, due_ms, entry, source, stamp_ms)
            return True
        if entry.id != entry.source or self._was_far(due_ms, stamp_ms):
            self.keep(step, entry.id, source, stamp_ms)
        return False

    def settle(self, step: Step, row: bytes, source: str, stamp_ms: int) -> bool:
        """Park the message that a command (`source`, `stamp_ms`) has moved to `row` if that is beyond the horizon.

        Return whether it is.
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
        """Return whether it is due beyond the horizon, by the time of the record that says so as long as that is fresh.

        Whoever does a step again after a crash then decides as was decided before.
        """
        if not self._horizon_ms:
            return False
        now = min(step.broker_ms, max(stamp_ms, step.broker_ms - self._fresh_ms))
        return due_ms > now + self._horizon_ms

    def _comes_back(self, size: int) -> bool:
        """Return whether a message fits into the request that it comes back as, whatever its compression was."""
        return size + _RETURN_BYTES <= self._largest

    def _was_far(self, due_ms: int, stamp_ms: int) -> bool:
        """Return whether a step that came to nothing in a crash may have parked it, when it was early enough."""
        return bool(self._horizon_ms) and due_ms > stamp_ms + self._horizon_ms

    # what the tier is told -------------------------------------------------------------------------------------------
    def _park(self, step: Step, due_ms: int, entry: Entry, source: str, stamp_ms: int) -> None:
        """Hand a message over: its life here ends."""
        headers = [*native.again(entry, due_ms), (names.OP, b"schedule")]
        if entry.bound is not None:
            headers.append((names.FIRST, b"%d" % entry.bound.first_ms))
        self._tell(step, entry.id, source, stamp_ms, headers, entry.key, entry.value)
        ended(step, "parked", due_ms, entry)

    def keep(self, step: Step, id_: str, source: str, stamp_ms: int) -> None:
        """Tell the tier that this worker has an id now: whatever it holds of it is void."""
        self._tell(step, id_, source, stamp_ms, [(names.OP, b"schedule"), (names.ID, id_.encode())], kept=True)
        if self.there:
            step.tell(Event("deferred", id_, step.now_ms, source))

    def defer(self, step: Step, request: Request) -> None:
        """Leave a command to the tier, for its id is not pending here."""
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
        """Add a record to the cold topic, as far as there is one, and remember of its id that it was told."""
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

    # what comes back -------------------------------------------------------------------------------------------------
    def assure_there(self) -> None:
        """Refuse what claims to come back from a tier that is not there.

        Raises Refusal.
        """
        if not self.there:
            sentence = f"{names.PARKED} is only for the cold tier, which this installation does not use. Leave it out."
            raise Refusal(Reason.MALFORMED, sentence)

    def confirm(self, step: Step, request: Request) -> None:
        """Tell the tier that what it has sent is here now, or settled here: it can forget it.

        At least once, a step's records are sent before it is in the changelog. The tier must not forget what only a
        step knows that may come to nothing: it is told by the next one (`settle_debts`). If there is none, for the
        process dies, it sends it again, and is told then.
        """
        if self._whole:
            self.keep(step, request.id, request.source, request.stamp_ms)
        else:
            # Whatever becomes of this process, the tier may send it again as long as the topic keeps what it has of it.
            self._remember(step, request.id, request.source, kept=True, memory_ms=_KEPT_MS)
            self.owed.append(request)

    def settle_debts(self, step: Step) -> None:
        """Confirm what the steps before this one have settled, unless the tier was told something else since."""
        owed, self.owed = self.owed, []
        for request in owed:
            told = self._store.cold_marks.get(request.id)
            if told is not None and told.kept and told.source == request.source:
                self.keep(step, request.id, request.source, request.stamp_ms)

    def is_stale(self, step: Step, parked: Parked) -> bool:
        """Return whether the tier may have been told something before it sent this that is forgotten by now."""
        return parked.snapshot_ms < step.broker_ms - self._memory_ms + _SLACK_MS
