"""What records mean for a partition: requests become rows, commands change them, nonsense becomes dead letters.

No I/O but reads of the local store: the step that comes out is what happens.
"""

import copy
import zlib
from collections.abc import Callable, Sequence

import msgspec

from app.ingest.history import History
from app.ingest.policy import AHEAD_MS, Policy
from app.ingest.refusals import Refusals
from app.ingest.rows import content, reminded, row_of
from app.steps.context import Context
from app.steps.events import Event, Kind
from app.steps.order_memory import order_of
from app.steps.step import OutgoingRecord, Step
from app.steps.transitions import cancelled, ended, move
from punctual.contract import forward, request
from punctual.contract.dialects import DIALECTS
from punctual.contract.home import home_partition
from punctual.contract.native import Record
from punctual.contract.request import Parked, Reason, Refusal, Request
from tables import Command, Entry, Order, Orders, Position, keys
from tables.entry import encode
from tables.orders import UNKNOWN_MS, in_order

#: Commands on a row that is being sent.
_COMMANDS = 32

Read = tuple[Record, Request | Refusal]


class Ingest:
    """Turns the records of one partition into steps."""

    def __init__(self, context: Context, policy: Policy) -> None:
        """Serve the partition of a context; `policy` says which requests may be accepted."""
        settings = context.settings
        self._number, self._settings, self._policy = context.number, settings, policy
        self._store, self._claims, self._limits = context.store, context.claims, context.limits
        self._cold, self._memory = context.cold, context.memory
        self._remembered = History(context.store, context.memory)
        self._refusals = Refusals(context.number, settings, context.limits)
        self._inputs, self._forwards, self._partitions = settings.inputs, settings.forwards, settings.partitions
        self._crcs = {topic: keys.topic_crc(topic) for topic in (*self._inputs, self._forwards)}
        #: The stamp of the last record that was read.
        self._read_ms = UNKNOWN_MS

    def read(self, step: Step, records: Sequence[Record]) -> list[Read]:
        """Decode `records`, all of one topic and in order, but for those before the topic's position."""
        topic = records[0].topic
        position = self._position(step, topic)
        start, base = position.offset, position.base
        stamp_ms = max(position.stamp_ms, self._memory.claimed(topic))
        latest_ms = step.broker_ms + AHEAD_MS
        forwarded, broker_ms, check = topic == self._forwards, step.broker_ms, self._policy.check
        decode = forward.decode if forwarded else DIALECTS[self._inputs[topic]].decode
        found: list[Read] = []
        append = found.append
        for record in records:
            if record.offset < start:
                continue
            if base:
                record = _renumbered(record, base)  # noqa: PLW2901 - it is the same record
            own_ms = record.timestamp
            if stamp_ms < own_ms <= latest_ms:
                stamp_ms = own_ms
            try:
                asked = decode(record)
                if not forwarded:
                    if asked.parked is None:
                        check(asked, broker_ms)
                    asked.stamp_ms, at_ms = stamp_ms, asked.asked_at_ms
                    if at_ms is not None and at_ms < stamp_ms:
                        asked.stamp_ms = at_ms
                        self._memory.waited(broker_ms)
                append((record, asked))
            except Refusal as refusal:
                append((record, refusal))
        self._read_ms = stamp_ms
        return found

    def _position(self, step: Step, topic: str) -> Position:
        """Return how far a topic is read, and which stamp that has."""
        position = step.changes.positions.get(topic) or self._store.positions.get(topic)
        if position is None:
            return Position(0, -1, 0)
        # Before stamps were kept, that of the last record says the same but for leaders' clocks.
        if position.stamp_ms < 0 <= position.timestamp_ms <= step.broker_ms + AHEAD_MS:
            return msgspec.structs.replace(position, stamp_ms=position.timestamp_ms)
        return position

    def apply(self, step: Step, found: list[Read], partitions_of: Callable[[str], int], limit: int) -> int:
        """Add to `step` what decoded records do, and return how many of them it has taken.

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
            self._move_on(step, found[:taken], whole=taken == len(found))
        return taken

    def _move_on(self, step: Step, taken: list[Read], *, whole: bool) -> None:
        """Note how far the topic of these records is read: the `whole` of what was read last, or its beginning."""
        last, largest_ms = taken[-1][0], self._read_ms
        before = self._position(step, last.topic)
        if not whole:
            latest_ms = step.broker_ms + AHEAD_MS
            largest_ms = max((record.timestamp for record, _ in taken if record.timestamp <= latest_ms), default=-1)
        step.changes.positions[last.topic] = Position(
            last.offset + 1 - before.base,
            last.timestamp,
            crc_of(last.key, last.value),
            before.base,
            max(before.stamp_ms, largest_ms, self._memory.claimed(last.topic)),
        )

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
                partitions = partitions_of(asked.to)
                if partitions <= (asked.partition or 0):
                    self._policy.assure_topic(asked, partitions)
            if asked.id != asked.source:
                home = home_partition(asked.id, self._inputs, self._partitions)
                if home != self._number:
                    raw = request.encode(asked)  # no smaller than the row that it becomes there
                    self._check_size(len(raw))
                    step.send(OutgoingRecord(self._forwards, home, asked.id.encode(), raw, []))
                    return
        if asked.parked is None:
            self._apply(step, record, asked)
        else:
            self._take_back(step, record, asked, asked.parked, partitions_of)

    def _repeated(self, step: Step, asked: Request) -> bool:
        """Return whether a forward has been applied before: those of a partition come in the order of offsets."""
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
        key, command = step.ids[asked.id], self._command(record, asked)
        if key is None:
            self._miss(step, asked, command)
            return
        entry = self.entry(step, key)
        # What moved a message that is cancelled had nothing left to move.
        shaped = entry.asked if command.op == "cancel" and command.if_due_ms is None else entry.timed
        if command.order.precedes(shaped):
            self._say(step, "stale", asked, key, entry)
        elif asked.if_due_ms is not None and asked.if_due_ms != keys.due_of(key):
            self._say(step, "conflict", asked, key, entry)
        elif key in self._claims or entry.commands:
            self._record(step, key, entry, command)
        elif asked.op == "cancel":
            cancelled(step, key, entry, asked.source)
            self._memory.end(step, key, entry, command)
        else:
            row = move(step, key, entry, command)
            moved = step.changes.puts[row][0]
            if self._cold.settle(step, row, asked.source, asked.stamp_ms):
                self._memory.end(step, row, moved)

    def _take_back(
        self, step: Step, record: Record, asked: Request, parked: Parked, partitions_of: Callable[[str], int]
    ) -> None:
        """Take in a message that the cold tier sends back, unless it did not know the latest about its id."""
        self._cold.assure_there()
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
                self._policy.assure_topic(asked, partitions_of(asked.to))
            self._schedule(step, record, asked)
        except Refusal as refusal:
            key = keys.row_key(max(0, asked.due_ms), record.offset, self._crcs[record.topic])
            self._refusals.refuse_parked(step, key, row_of(asked), refusal)
        self._cold.confirm(step, asked)

    def _schedule(self, step: Step, record: Record, asked: Request) -> None:
        entry = row_of(asked)
        raw = encode(entry, step.version)
        self._check_size(len(raw))
        before = step.ids[asked.id]
        remembered = step.changes.orders or self._store.orders.may_have(asked.id)
        known = self._memory.of(step, asked.id) if remembered else None
        if known is not None or before is not None:
            self._contend(step, record, asked, entry, known, before)
        elif self._remembered.delivered_before(step, asked):
            self._duplicate(step, asked)
        else:
            step.tell(Event("accepted", asked.id, step.now_ms, asked.source, asked.due_ms, asked.to))
            if self._cold.there:
                self._hold(step, record, asked, entry, asked.due_ms, raw)
            else:
                step.put(keys.row_key(asked.due_ms, record.offset, self._crcs[record.topic]), entry, raw)

    def _contend(
        self, step: Step, record: Record, asked: Request, entry: Entry, known: Orders | None, before: bytes | None
    ) -> None:
        """Take in a request whose id has had other orders: `known` are those remembered, `before` is a pending row."""
        order, there = order_of(asked), None if before is None else self.entry(step, before)
        lost = known.ended if known is not None and known.has_ended(order) else None
        if known is not None and lost is not None and known.cancelled:
            self._lose(step, asked, entry, "cancelled", lost.source)
            return
        sent = self._remembered.delivered_before(step, asked) if before is None else self._is_sent(before, asked, entry)
        if sent:
            self._duplicate(step, asked)
            return
        if there is not None and order.precedes(there.asked):
            lost = there.asked
        if lost is not None:
            self._lose(step, asked, entry, "replaced", lost.source)
            return
        step.tell(_accepted(step, asked))
        commands = known.waiting if known is not None else ()
        if before is not None and there is not None:
            commands += self._replace(step, before, there, asked, order)
        if known is not None and asked.parked is not None:
            entry = reminded(entry, known)
        self._meet(step, record, asked, entry, [one for one in in_order(commands) if order.precedes(one.order)])

    def _lose(self, step: Step, asked: Request, entry: Entry, event: Kind, by: str) -> None:
        """End a request at once that comes after a later order for its id."""
        step.tell(_accepted(step, asked))
        ended(step, event, asked.due_ms, entry, by=by)

    def _replace(self, step: Step, key: bytes, entry: Entry, asked: Request, order: Order) -> tuple[Command, ...]:
        """End a pending message in favour of a later request; return the commands on it that are later still.

        If it is being sent, the outcome of that ends it; those commands are not for it any more.
        """
        later = tuple(one for one in entry.commands if one.op != "replace" and order.precedes(one.order))
        left = tuple(one for one in entry.commands if one not in later)
        if entry.moved is not None and order.precedes(entry.moved):
            moved = Command("reschedule", entry.moved.source, keys.due_of(key), stamp_ms=entry.moved.stamp_ms)
            later = (moved, *later)
        if key in self._claims or entry.commands:
            entry = msgspec.structs.replace(entry, commands=left)
            self._record(step, key, entry, Command("replace", asked.source, stamp_ms=order.stamp_ms))
        else:
            step.remove(key, entry)
            ended(step, "replaced", keys.due_of(key), entry, by=asked.source)
        return later

    def _meet(self, step: Step, record: Record, asked: Request, entry: Entry, commands: Sequence[Command]) -> None:
        """Hold a message that commands have waited for, as they want it."""
        due_ms, last = asked.due_ms, None
        for place, command in enumerate(commands):
            if command.if_due_ms not in (None, due_ms):
                ended(step, "conflict", due_ms, entry, by=command.source)
            elif command.op == "cancel":
                ended(step, "cancelled", due_ms, entry, by=command.source)
                self._memory.end(step, keys.row_key(due_ms, 0, 0), entry, command)
                if self._cold.there and asked.parked is None:  # what the tier has of the id was replaced
                    self._cold.keep(step, asked.id, command.source, command.stamp_ms)
                for left in commands[place + 1 :]:
                    step.tell(Event("unknown", asked.id, step.now_ms, left.source, by=left.source))
                    self._memory.wait(step, asked.id, left)
                return
            else:
                due_ms, last = command.due_ms, command
                entry = msgspec.structs.replace(entry, moved=command.order)
                ended(step, "rescheduled", due_ms, entry, by=command.source)
        self._hold(step, record, asked, entry, due_ms, encode(entry, step.version), last)

    def _hold(
        self,
        step: Step,
        record: Record,
        asked: Request,
        entry: Entry,
        due_ms: int,
        raw: bytes,
        moved: Command | None = None,
    ) -> None:
        """Put the row of an accepted message that is due as asked, or as a later command has `moved` it; or park it."""
        row, by = keys.row_key(due_ms, record.offset, self._crcs[record.topic]), moved or asked
        parks = self._cold.there and asked.parked is None
        if parks and self._cold.park(step, due_ms, entry, len(raw), by.source, by.stamp_ms):
            self._memory.end(step, row, entry)
        else:
            step.put(row, entry, raw)

    def _is_sent(self, row: bytes, asked: Request, entry: Entry) -> bool:
        """Return whether the same message is being sent, and to be known again within its dedupe window."""
        window_ms = self._settings.dedupe_window_ms if asked.dedupe_ms is None else asked.dedupe_ms
        sent = self._claims.get(row)
        if not window_ms or sent is None or keys.due_of(row) != asked.due_ms:
            return False
        return content(sent) == content(entry)

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

    def _miss(self, step: Step, asked: Request, command: Command) -> None:
        """Leave a command for an id that is not pending to the cold tier, and to a request that comes late."""
        known = self._memory.of(step, asked.id)
        if known is not None and _is_stale(command, known):
            step.tell(Event("stale", asked.id, step.now_ms, asked.source, by=asked.source))
            return
        if self._cold.there:
            self._cold.defer(step, asked)
        else:
            step.tell(Event("unknown", asked.id, step.now_ms, asked.source, by=asked.source))
        self._memory.wait(step, asked.id, command)

    def _command(self, record: Record, asked: Request) -> Command:
        assert asked.op != "schedule", "a schedule is no command"
        crc, stamp_ms = self._crcs[record.topic], order_of(asked).stamp_ms
        return Command(asked.op, asked.source, asked.due_ms, record.offset, crc, stamp_ms, asked.if_due_ms)

    def _record(self, step: Step, key: bytes, entry: Entry, command: Command) -> None:
        """Write a command on a row that is being sent: the outcome of the send decides it.

        A sender may give any number of them: what changes least is passed over then, the first that moves it.
        """
        commands = (*entry.commands, command)
        if len(commands) > _COMMANDS:
            passed_over = next((one for one in commands[:-1] if one.op not in ("cancel", "replace")), commands[1])
            commands = tuple(one for one in commands if one is not passed_over)
            step.tell(Event("stale", entry.id, step.now_ms, passed_over.source, by=command.source))
        entry = msgspec.structs.replace(entry, commands=commands)
        step.changes.rewrite(key, entry, encode(entry, step.version))
        if key in self._claims:
            self._claims[key] = entry
        if command.op == "replace":
            step.ids[entry.id] = None

    def _say(self, step: Step, event: Kind, asked: Request, key: bytes, entry: Entry) -> None:
        step.tell(Event(event, entry.id, step.now_ms, entry.source, due=keys.due_of(key), to=entry.to, by=asked.source))

    def entry(self, step: Step, key: bytes) -> Entry:
        """Return the row at `key` as the step sees it."""
        put = step.changes.puts.get(key)
        if put is not None:
            return put[0]
        entry = self._claims.get(key) or self._store.entry(key)
        assert entry is not None, "the id index names a row that is not there"
        return entry


def _accepted(step: Step, asked: Request) -> Event:
    return Event("accepted", asked.id, step.now_ms, asked.source, asked.due_ms, asked.to)


def _is_stale(command: Command, known: Orders) -> bool:
    """Whether a later order has ended its message, or moved it."""
    later = [one for one in known.waiting if one.moves and command.moves and command.order.precedes(one.order)]
    return bool(later) or known.has_ended(command.order)


def _renumbered(record: Record, base: int) -> Record:
    """Return a record of a topic that was created again an offset that goes on where the old one's ended.

    Sources, automatic ids, row keys and what is known of forwards go by offsets: the same ones again would replace
    messages that still wait, and make new forwards look like repeated ones.
    """
    record = copy.copy(record)
    record.offset += base
    return record


def crc_of(key: bytes | None, value: bytes | None) -> int:
    """Return the number by which a record is known again."""
    return zlib.crc32(value or b"", zlib.crc32(key or b""))
