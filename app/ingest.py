"""What records mean for a partition: requests become rows, commands change them, nonsense becomes dead letters.

No I/O but reads of the local store: the step that comes out is what happens.
"""

import copy
import zlib
from collections.abc import Callable, Sequence

import msgspec

from app.cold import Cold
from app.contract import native, request
from app.contract.home import home_partition
from app.contract.native import Record
from app.contract.request import Parked, Reason, Refusal, Request
from app.events import Event, Kind
from app.life import cancelled, ended, move
from app.limits import Limits
from app.policy import Policy, assure_topic
from app.refusals import Refusals
from app.remembered import Remembered
from app.settings import Settings
from app.step import Outgoing, Step
from tables import Cancel, Command, Entry, PartitionStore, Position, keys
from tables.entry import encode

_DECODERS: dict[str, Callable[[Record], Request]] = {"native": native.decode}

Read = tuple[Record, Request | Refusal]


class Ingest:
    """Turns the records of one partition into steps."""

    def __init__(
        self,
        number: int,
        settings: Settings,
        policy: Policy,
        store: PartitionStore,
        claims: dict[bytes, Entry],
        limits: Limits,
        cold: Cold,
    ) -> None:
        """Serve partition `number`; `claims` are the rows whose sends are outstanding."""
        self._number, self._settings, self._policy = number, settings, policy
        self._store, self._claims, self._limits, self._cold = store, claims, limits, cold
        self._remembered = Remembered(store)
        self._refusals = Refusals(number, settings, limits)
        self._inputs, self._forwards = settings.inputs, settings.forwards
        self._crcs = {topic: keys.topic_crc(topic) for topic in (*self._inputs, self._forwards)}

    def read(self, step: Step, records: Sequence[Record]) -> list[Read]:
        """Decode `records`, all of one topic and in order, those left out that an earlier life has ingested."""
        topic = records[0].topic
        position = step.changes.positions.get(topic) or self._store.positions.get(topic)
        start, base = (position.offset, position.base) if position is not None else (0, 0)
        forwarded = topic == self._forwards
        decode = _forwarded if forwarded else _DECODERS[self._inputs[topic]]
        found: list[Read] = []
        for record in records:
            if record.offset < start:
                continue
            if base:
                record = _renumbered(record, base)  # noqa: PLW2901 - it is the same record
            try:
                asked = decode(record)
                if not forwarded and asked.parked is None:
                    self._policy.check(asked, step.broker_ms)
            except Refusal as refusal:
                found.append((record, refusal))
            else:
                found.append((record, asked))
        return found

    def take(self, step: Step, found: list[Read], partitions_of: Callable[[str], int], limit: int) -> int:
        """Add to `step` what decoded records do, and give how many of them it has taken.

        It takes no more when it has `limit` bytes: a small command can move a large row. `partitions_of` a destination
        topic is 0 if it is not there.
        """
        self._look_up(step, [asked.id for _, asked in found if isinstance(asked, Request)])
        taken = 0
        for record, asked in found:
            if taken and step.size >= limit:
                break
            taken += 1
            try:
                if isinstance(asked, Refusal):
                    raise asked
                self._route(step, record, asked, partitions_of)
            except Refusal as refusal:
                self._refusals.refuse(step, record, refusal)
        if taken:
            last = found[taken - 1][0]
            before = step.changes.positions.get(last.topic) or self._store.positions.get(last.topic)
            base = before.base if before is not None else 0
            position = Position(last.offset + 1 - base, last.timestamp, crc_of(last.key, last.value), base)
            step.changes.positions[last.topic] = position
        return taken

    def _look_up(self, step: Step, ids: list[str]) -> None:
        """Read where these ids are, in one go, for those that this step has not touched."""
        missing = [id_ for id_ in ids if id_ not in step.ids]
        if missing:
            step.ids.update(zip(missing, self._store.find_many(missing), strict=True))

    def _route(self, step: Step, record: Record, asked: Request, partitions_of: Callable[[str], int]) -> None:
        """Apply a request here if its id lives here, else send it home."""
        if record.topic == self._forwards:
            if self._repeated(step, asked):
                return
        else:
            if asked.op == "schedule" and asked.cluster is None and asked.parked is None:
                assure_topic(asked, partitions_of(asked.to))
            if asked.id != asked.source:
                home = home_partition(asked.id, self._inputs, self._settings.partitions)
                if home != self._number:
                    raw = request.encode(asked)  # no smaller than the row that it becomes there
                    self._check_size(len(raw))
                    step.sends.append(Outgoing(self._forwards, home, asked.id.encode(), raw, []))
                    return
        if asked.parked is None:
            self._apply(step, record, asked)
        else:
            self._take_back(step, record, asked, asked.parked, partitions_of)

    def _repeated(self, step: Step, asked: Request) -> bool:
        """Tell whether a forward has been applied before: those of a partition come in the order of offsets."""
        topic, partition, offset = asked.source.rsplit("-", 2)
        origin = keys.origin_key(topic, int(partition))
        seen = step.changes.origins.get(origin, self._store.origins.get(origin, -1))
        if int(offset) <= seen:
            return True
        step.changes.origins[origin] = int(offset)
        return False

    # requests and commands -------------------------------------------------------------------------------------------
    def _apply(self, step: Step, record: Record, asked: Request) -> None:
        if asked.op == "schedule":
            self._schedule(step, record, asked)
            return
        key = step.ids[asked.id]
        if key is None:
            self._miss(step, asked)
            return
        entry = self.entry(step, key)
        if asked.if_due_ms is not None and asked.if_due_ms != keys.due_of(key):
            self._say(step, "conflict", asked, key, entry)
        elif key in self._claims or entry.commands:
            self._record(step, key, entry, self._command(record, asked))
        elif asked.op == "cancel":
            cancelled(step, key, entry, asked.source)
        else:
            row = move(step, key, entry, self._command(record, asked))
            self._cold.settle(step, row, asked.source, asked.stamp_ms)

    def _take_back(
        self, step: Step, record: Record, asked: Request, parked: Parked, partitions_of: Callable[[str], int]
    ) -> None:
        """Take in a message that the cold tier sends back, unless it did not know the latest about its id."""
        if self._cold.is_stale(step, parked):
            self._duplicate(step, asked, "stale-promotion")
            return
        known = self._remembered.standing(step, asked, parked)
        if known:
            self._duplicate(step, asked)
            if known == "here":
                self._cold.confirm(step, asked)
            return
        try:
            self._policy.check(asked, step.broker_ms)
            if asked.cluster is None:
                assure_topic(asked, partitions_of(asked.to))
            self._schedule(step, record, asked)
        except Refusal as refusal:
            key = keys.row_key(max(0, asked.due_ms), record.offset, self._crcs[record.topic])
            self._refusals.refuse_parked(step, key, _entry(asked), refusal)
        self._cold.confirm(step, asked)

    def _schedule(self, step: Step, record: Record, asked: Request) -> None:
        entry = _entry(asked)
        raw = encode(entry)
        self._check_size(len(raw))
        accepted = Event("accepted", asked.id, step.now_ms, asked.source, asked.due_ms, asked.to)
        cancel = self._remembered.cancel_of(step, asked)
        if cancel is not None and cancel.if_due_ms in (None, asked.due_ms):
            step.tell(accepted)
            ended(step, "cancelled", asked.due_ms, entry, by=cancel.source)
            return
        before = step.ids[asked.id]
        known = (
            self._remembered.delivered_before(step, asked) if before is None else self._is_sent(before, asked, entry)
        )
        if known:
            self._duplicate(step, asked)
            return
        step.tell(accepted)
        if cancel is not None:
            ended(step, "conflict", asked.due_ms, entry, by=cancel.source)
        if before is not None:
            self._replace(step, before, asked)
        if self._cold.there and asked.parked is None and self._cold.take(step, asked, entry, len(raw)):
            return
        step.put(keys.row_key(asked.due_ms, record.offset, self._crcs[record.topic]), entry, raw)

    def _is_sent(self, row: bytes, asked: Request, entry: Entry) -> bool:
        """Tell whether the same message is being sent, and to be known again within its dedupe window."""
        window_ms = self._settings.dedupe_window_ms if asked.dedupe_ms is None else asked.dedupe_ms
        sent = self._claims.get(row)
        if not window_ms or sent is None or keys.due_of(row) != asked.due_ms:
            return False
        return msgspec.structs.replace(sent, source=entry.source) == entry

    def _duplicate(self, step: Step, asked: Request, reason: str | None = None) -> None:
        step.tell(Event("duplicate", asked.id, step.now_ms, asked.source, asked.due_ms, asked.to, reason=reason))

    def _check_size(self, size: int) -> None:
        if size > self._limits.row:
            raise Refusal(
                Reason.TOO_LARGE,
                f"held, the message has {size:,} bytes, {self._limits.row:,} are possible. Send less, or raise "
                f"max.message.bytes of {self._settings.changelog} and {self._settings.forwards}"
                f"{f' and {self._settings.cold}' if self._limits.cold else ''}, and restart.",
            )

    def _replace(self, step: Step, key: bytes, asked: Request) -> None:
        entry = self.entry(step, key)
        if key in self._claims or entry.commands:
            self._record(step, key, entry, Command("replace", asked.source))
        else:
            step.remove(key, entry)
            ended(step, "replaced", keys.due_of(key), entry, by=asked.source)

    def _miss(self, step: Step, asked: Request) -> None:
        """Leave a command for an id that is not pending to the cold tier, or to nobody."""
        if self._cold.there:
            self._cold.defer(step, asked)
        else:
            step.tell(Event("unknown", asked.id, step.now_ms, asked.source, by=asked.source))
        if asked.op == "cancel" and self._settings.cancels_ms:
            expires = step.broker_ms + self._settings.cancels_ms
            step.changes.cancels[asked.id] = Cancel(asked.stamp_ms, expires, asked.source, asked.if_due_ms)
            step.changes.size += len(asked.id.encode()) + 64

    def _command(self, record: Record, asked: Request) -> Command:
        assert asked.op != "schedule", "a schedule is no command"
        return Command(asked.op, asked.source, asked.due_ms, record.offset, self._crcs[record.topic])

    def _record(self, step: Step, key: bytes, entry: Entry, command: Command) -> None:
        """Write a command on a row that is being sent: the outcome of the send decides it."""
        entry = msgspec.structs.replace(entry, commands=(*entry.commands, command))
        step.changes.rewrite(key, entry, encode(entry))
        if key in self._claims:
            self._claims[key] = entry
        if command.op == "replace":
            step.ids[entry.id] = None

    def _say(self, step: Step, event: Kind, asked: Request, key: bytes, entry: Entry) -> None:
        step.tell(Event(event, entry.id, step.now_ms, entry.source, due=keys.due_of(key), to=entry.to, by=asked.source))

    def entry(self, step: Step, key: bytes) -> Entry:
        """Give the row at `key` as the step sees it."""
        put = step.changes.puts.get(key)
        if put is not None:
            return put[0]
        entry = self._claims.get(key) or self._store.entry(key)
        assert entry is not None, "the id index names a row that is not there"
        return entry


def _forwarded(record: Record) -> Request:
    """Decode a record that another partition has sent home."""
    try:
        return request.decode(record.value or b"")
    except msgspec.DecodeError as error:
        raise Refusal(Reason.MALFORMED, f"this is no forward of Punctual's: {error}.") from error


def _entry(asked: Request) -> Entry:
    """Give the row that a request becomes."""
    return Entry(
        asked.id,
        asked.to,
        asked.key,
        asked.value,
        asked.headers,
        asked.source,
        asked.partition,
        asked.cluster,
        asked.max_late_ms,
        asked.if_late,
        asked.dedupe_ms,
        asked.on_failure,
    )


def _renumbered(record: Record, base: int) -> Record:
    """Give a record of a topic that was created again an offset that goes on where the old one's ended.

    Sources, automatic ids, row keys and what is known of forwards go by offsets: the same ones again would replace
    messages that still wait, and make new forwards look like repeated ones.
    """
    record = copy.copy(record)
    record.offset += base
    return record


def crc_of(key: bytes | None, value: bytes | None) -> int:
    """Give the number by which a record is known again."""
    return zlib.crc32(value or b"", zlib.crc32(key or b""))
