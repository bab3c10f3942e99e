"""What a partition remembers of commands for ids that are not there: the last one wins (docs/decisions/0010)."""

from collections.abc import Iterable

from app.engine.steps import occurrences
from app.engine.steps.step import Step
from app.settings.retention import RetentionSettings
from app.settings.topics import TopicSettings
from punctual.contract.request import Request
from tables import Command, Entry, PartitionStore, RecordStamp, RememberedCommands
from tables.commands import UNKNOWN_MS, in_order
from tables.entry import entry_of

#: Commands that one id may have waiting: two that move it, of a kind each, the rest with conditions of their own.
_COMMANDS = 8
#: What a stamp takes in addition to its source, and a mark in addition to its stamps.
_STAMP_BYTES, _MARK_BYTES = 32, 48
#: The brokers' clocks may differ by so much: stamps are by theirs, and when a mark was written by the worker's.
_BEFORE_MS = 500


def stamp_of(request: Request) -> RecordStamp:
    """Return when something was asked for: of what the cold tier sends back, the last that the tier knew of its id.

    Whoever names an id that Punctual has given itself knew of its message: whatever the clocks say, that came first.
    """
    record = request.parked or request
    return RecordStamp(UNKNOWN_MS if request.id in (request.source, record.source) else record.stamp_ms, record.source)


class CommandMemory:
    """Asks a step, and then the table, what is remembered of an id; and adds to it."""

    def __init__(self, topics: TopicSettings, retention: RetentionSettings, store: PartitionStore) -> None:
        """Look into `store`."""
        self._memory_ms, self._store = retention.command_memory_ms, store
        #: No record with a stamp below this can come any more (app/engine/reports/watermark.py).
        self.watermark_ms = UNKNOWN_MS
        #: Up to which stamp each input is claimed to be read; and up to which it could be, for there is no more.
        self._claimed: dict[str, int] = {}
        self._idle: dict[str, int] = {}
        self._inputs = topics.inputs
        #: When a record came that had waited somewhere else (`delay-asked-at`): nothing is claimed for a while.
        self._waited_ms = -self._memory_ms

    # stamps ----------------------------------------------------------------------------------------------------------
    def claim(self, topic: str, stamp_ms: int) -> None:
        """Give what is read of an input from now on this stamp at least."""
        self._claimed[topic] = max(stamp_ms, self._claimed.get(topic, UNKNOWN_MS))

    def claimed(self, topic: str) -> int:
        """Return the least stamp that what is read of an input gets."""
        return self._claimed.get(topic, UNKNOWN_MS)

    def idle(self, topic: str, until_ms: int) -> None:
        """Note that all of an input is read that was there at a time of the brokers' clock."""
        self._idle[topic] = until_ms

    def waited(self, broker_ms: int) -> None:
        """Note a record that is older than the records around it."""
        self._waited_ms = broker_ms

    def read_to(self, broker_ms: int) -> dict[str, int]:
        """Claim, by input, the stamp up to which all records have been read, and return it."""
        if broker_ms - self._waited_ms < self._memory_ms:
            return {}
        positions = self._store.positions
        for topic in self._inputs:
            position = positions.get(topic)
            read_ms = position.stamp_ms if position is not None else UNKNOWN_MS
            self.claim(topic, max(read_ms, self._idle.get(topic, UNKNOWN_MS)))
        return {topic: self._claimed[topic] for topic in self._inputs}

    # what is remembered ----------------------------------------------------------------------------------------------
    def of(self, step: Step, id_: str) -> RememberedCommands | None:
        """Return what is remembered of an id, or None."""
        told, store = step.changes.commands, self._store.commands
        if not (told or store.count):
            return None
        found = told[id_] if id_ in told else store.get(id_)
        return found if found is not None and found.expires_ms > step.broker_ms else None

    def wait(self, step: Step, id_: str, command: Command) -> None:
        """Remember a command for an id that is not there; an unconditional cancel takes the place of older commands."""
        known = self.of(step, id_)
        ended, cancelled = (known.ended, known.cancelled) if known is not None else (None, False)
        commands = known.waiting if known is not None else ()
        if command.op != "cancel" or command.if_due_ms is not None:
            commands = _joined(commands, command)
        elif ended is None or ended.precedes(command.stamp):
            ended, cancelled = command.stamp, True
        self._write(step, id_, ended, commands, cancelled=cancelled)

    def overlook(self, step: Step, entry: Entry, command: Command) -> None:
        """Remember a command that says nothing to a message, for that does not recur: one that comes late may."""
        if not occurrences.allows(entry, command.op):
            self.wait(step, entry.id, command)

    def outdo(self, step: Step, row: bytes, entry: Entry, command: Command, *, stale: bool = False) -> None:
        """Remember what has moved a series before a command does that moves it, or the command if it is `stale`.

        Of a pause and a reschedule one says nothing to a message that comes late and does not recur.
        """
        movers = occurrences.movers(entry, row)
        if not command.moves or (stale and any(map(command.rivals, movers))):
            return
        for moved in movers:
            if not command.rivals(moved):
                self.wait(step, entry.id, command if stale else moved)

    def end(self, step: Step, row: bytes, entry: Entry, cancel: Command | None = None) -> None:
        """Remember that the message in a row ends, perhaps by a `cancel`; not if nothing older can come any more.

        An id that a later request has taken has that request's commands.
        """
        if entry.id == entry.source or entry.replaced:
            return
        stamps = [entry.timed, *([cancel.stamp] if cancel is not None else [])]
        if max(stamp.stamp_ms for stamp in stamps) < max(0, self.watermark_ms):
            return
        known = self.of(step, entry.id)
        ended, cancelled = entry.asked, False
        if known is not None and known.has_ended(ended) and known.ended is not None:
            ended, cancelled = known.ended, known.cancelled
        commands = known.waiting if known is not None else ()
        if entry.moved is not None:
            for moved in occurrences.movers(entry, row):
                commands = _joined(commands, moved)
        self._write(step, entry.id, ended, commands, cancelled=cancelled)
        if cancel is not None:
            self.wait(step, entry.id, cancel)

    def end_plain(self, step: Step, rows: Iterable[bytes | Entry]) -> int | None:
        """Remember that plain rows end; if one's id has a mark, do nothing, and return the place of the first such."""
        since_ms, entries = max(0, self.watermark_ms), enumerate(map(entry_of, rows))
        kept = [one for one in entries if one[1].stamp_ms >= since_ms and one[1].id != one[1].source]
        first = self._store.commands.first_of([entry.id for _, entry in kept])
        if first is not None:
            return kept[first][0]
        for _, entry in kept:
            self._write(step, entry.id, entry.asked, (), cancelled=False)
        return None

    def spent(self, limit: int) -> list[str]:
        """Return up to `limit` ids whose messages ended so long ago that nothing older can come any more.

        They would leave no mark if they ended now. Cancels and commands that wait are remembered for their time.
        """
        watermark_ms = self.watermark_ms
        if watermark_ms <= 0:
            return []

        def is_spent(mark: RememberedCommands) -> bool:
            ended = None if mark.cancelled or mark.commands else mark.ended
            return ended is not None and ended.stamp_ms < watermark_ms

        # When a mark ends tells when it was written; few that were written before the watermark have a stamp after it.
        return self._store.commands.spent(watermark_ms - _BEFORE_MS + self._memory_ms, limit, is_spent)

    def _write(
        self, step: Step, id_: str, ended: RecordStamp | None, commands: Iterable[Command], *, cancelled: bool
    ) -> None:
        left = tuple(one for one in commands if ended is None or ended.precedes(one.stamp))
        if ended is not None and ended.stamp_ms < 0:
            ended = None
        step.changes.commands[id_] = RememberedCommands.of(
            step.broker_ms + self._memory_ms, ended, left, cancelled=cancelled
        )
        sources = sum(len(one.source) + _STAMP_BYTES for one in (ended, *left) if one is not None)
        step.changes.size += _MARK_BYTES + 2 * len(id_.encode()) + sources


def _joined(commands: tuple[Command, ...], new: Command) -> tuple[Command, ...]:
    """Return commands with one more: of those that move a message whatever its due time, only the last one counts."""
    rivals = [one for one in (*commands, new) if one.rivals(new)]
    ordered = in_order((*(one for one in (*commands, new) if one not in rivals), *in_order(rivals)[-1:]))
    while len(ordered) > _COMMANDS:
        spare = next(one for one in ordered if not one.moves)
        ordered = tuple(one for one in ordered if one is not spare)
    return ordered
