"""Commands that a partition remembers for ids that are not pending: the last command wins (docs/decisions/0010)."""

from collections.abc import Iterable

from app.engine.steps import occurrences
from app.engine.steps.step import Step
from app.settings.retention import RetentionSettings
from app.settings.topics import TopicSettings
from punctual.contract.request import Request
from tables import Command, Entry, PartitionStore, RecordStamp, RememberedCommands
from tables.commands import UNKNOWN_MS, in_order
from tables.entry import entry_of

#: Maximum number of commands that wait for one id: at most two that move it unconditionally, and conditional ones.
_COMMANDS = 8
#: Bytes of a stamp in addition to its source, and of a mark in addition to its stamps.
_STAMP_BYTES, _MARK_BYTES = 32, 48
#: Maximum difference between brokers' clocks: they set the stamps, but the worker's clock sets a mark's time.
_BEFORE_MS = 500


def stamp_of(request: Request) -> RecordStamp:
    """Return the stamp of a request; for a message from the cold tier, the last stamp that the tier knew of its id.

    A command for an automatic id is always later than its message, whatever the clocks say, because its sender knew the
    id.
    """
    record = request.parked or request
    return RecordStamp(UNKNOWN_MS if request.id in (request.source, record.source) else record.stamp_ms, record.source)


class CommandMemory:
    """Reads and adds remembered commands, in a step first and then in the table."""

    def __init__(self, topics: TopicSettings, retention: RetentionSettings, store: PartitionStore) -> None:
        """Remember for the time in `retention`, in steps for `store`; `topics` has the inputs."""
        self._memory_ms, self._store = retention.command_memory_ms, store
        #: No record with a stamp below this can arrive any more (app/engine/reports/watermark.py).
        self.watermark_ms = UNKNOWN_MS
        #: By input: the stamp up to which it is claimed to be read, and the one up to which it has no more records.
        self._claimed: dict[str, int] = {}
        self._idle: dict[str, int] = {}
        self._inputs = topics.inputs
        #: Time of the last record that was stored elsewhere before (`delay-asked-at`), after which there are
        #: no claims for a while.
        self._waited_ms = -self._memory_ms

    # stamps ----------------------------------------------------------------------------------------------------------
    def claim(self, topic: str, stamp_ms: int) -> None:
        """Give all further records of an input at least this stamp."""
        self._claimed[topic] = max(stamp_ms, self._claimed.get(topic, UNKNOWN_MS))

    def claimed(self, topic: str) -> int:
        """Return the minimum stamp of further records of an input."""
        return self._claimed.get(topic, UNKNOWN_MS)

    def idle(self, topic: str, until_ms: int) -> None:
        """Note that an input has been read up to all records that it had at `until_ms` of the brokers' clock."""
        self._idle[topic] = until_ms

    def waited(self, broker_ms: int) -> None:
        """Note the time of a record that is older than the records around it."""
        self._waited_ms = broker_ms

    def read_to(self, broker_ms: int) -> dict[str, int]:
        """Return, by input, the stamp up to which all records have been read, and claim it."""
        if broker_ms - self._waited_ms < self._memory_ms:
            return {}
        positions = self._store.positions
        for topic in self._inputs:
            position = positions.get(topic)
            read_ms = position.stamp_ms if position is not None else UNKNOWN_MS
            self.claim(topic, max(read_ms, self._idle.get(topic, UNKNOWN_MS)))
        return {topic: self._claimed[topic] for topic in self._inputs}

    # remembered commands ---------------------------------------------------------------------------------------------
    def of(self, step: Step, id_: str) -> RememberedCommands | None:
        """Return the remembered commands of an id, or None."""
        changed, store = step.changes.commands, self._store.commands
        if not (changed or store.count):
            return None
        memory = changed[id_] if id_ in changed else store.get(id_)
        return memory if memory is not None and memory.expires_ms > step.broker_ms else None

    def wait(self, step: Step, id_: str, command: Command) -> None:
        """Remember a command for an id that is not pending; an unconditional cancel replaces older commands."""
        known = self.of(step, id_)
        ended, cancelled = (known.ended, known.cancelled) if known is not None else (None, False)
        commands = known.waiting if known is not None else ()
        if command.op != "cancel" or command.if_due_ms is not None:
            commands = _joined(commands, command)
        elif ended is None or ended.precedes(command.stamp):
            ended, cancelled = command.stamp, True
        self._write(step, id_, ended, commands, cancelled=cancelled)

    def overlook(self, step: Step, entry: Entry, command: Command) -> None:
        """Remember a command on a series that does not apply to this message, because it can apply to a late series."""
        if not occurrences.allows(entry, command.op):
            self.wait(step, entry.id, command)

    def outdo(self, step: Step, row: bytes, entry: Entry, command: Command, *, stale: bool = False) -> None:
        """Remember the commands that moved a series before `command` moves it, or `command` itself if it is `stale`.

        A pause and a reschedule do not replace each other: a late message that does not recur is moved by the latter
        alone.
        """
        movers = occurrences.movers(entry, row)
        if not command.moves or (stale and any(map(command.rivals, movers))):
            return
        for moved in movers:
            if not command.rivals(moved):
                self.wait(step, entry.id, command if stale else moved)

    def end(self, step: Step, row: bytes, entry: Entry, cancel: Command | None = None) -> None:
        """Remember that the message in a row ends, by a `cancel` if given, unless no older record can arrive any more.

        Does not remember it if a later request has taken the id: commands belong to that request.
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
        """Remember the end of plain rows and return None; if an id has a mark, only return the first such index."""
        since_ms, entries = max(0, self.watermark_ms), enumerate(map(entry_of, rows))
        kept = [one for one in entries if one[1].stamp_ms >= since_ms and one[1].id != one[1].source]
        first = self._store.commands.first_of([entry.id for _, entry in kept])
        if first is not None:
            return kept[first][0]
        for _, entry in kept:
            self._write(step, entry.id, entry.asked, (), cancelled=False)
        return None

    def spent(self, limit: int) -> list[str]:
        """Return up to `limit` ids whose messages ended before the watermark, after which no older record can arrive.

        They would leave no mark if they ended now. Cancels and waiting commands are kept for their whole time.
        """
        watermark_ms = self.watermark_ms
        if watermark_ms <= 0:
            return []

        def is_spent(mark: RememberedCommands) -> bool:
            ended = None if mark.cancelled or mark.commands else mark.ended
            return ended is not None and ended.stamp_ms < watermark_ms

        # The expiry of a mark shows when it was written. Few marks from before the watermark have a stamp after it.
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
    """Return commands with a new one; of unconditional commands that move a message, only the last one is kept."""
    rivals = [one for one in (*commands, new) if one.rivals(new)]
    ordered = in_order((*(one for one in (*commands, new) if one not in rivals), *in_order(rivals)[-1:]))
    while len(ordered) > _COMMANDS:
        spare = next(one for one in ordered if not one.moves)
        ordered = tuple(one for one in ordered if one is not spare)
    return ordered
