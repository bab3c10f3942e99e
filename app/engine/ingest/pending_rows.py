"""The rows of pending messages as a step sees them: what it has changed comes before what is in the table."""

import msgspec

from app.engine.steps.context import PartitionContext
from app.engine.steps.step import Step
from punctual.contract.events import Event
from punctual.contract.request import Reason, Refusal
from tables import Command, Entry
from tables.entry import emptied, encode

#: Commands on a row that is being sent.
_COMMANDS = 32


class PendingRows:
    """Looks up the rows of one partition, and writes on those that are being sent."""

    def __init__(self, context: PartitionContext) -> None:
        """Serve the partition of a context."""
        self._store, self._claims, self._limits = context.store, context.claims, context.limits
        self._settings = context.settings

    def entry(self, step: Step, key: bytes) -> Entry:
        """Return the row at `key` as the step sees it."""
        entry = step.changes.entry(key) or self._claims.get(key) or self._store.entry(key)
        assert entry is not None, "the id index names a row that is not there"
        return entry

    def record(self, step: Step, key: bytes, entry: Entry, command: Command) -> None:
        """Write a command on a row that is being sent: the outcome of the send decides it.

        A sender may give any number of them: what changes least is passed over then, the first that moves it.
        """
        commands = (*entry.commands, command)
        if len(commands) > _COMMANDS:
            passed_over = next((one for one in commands[:-1] if one.op not in ("cancel", "replace")), commands[1])
            commands = tuple(one for one in commands if one is not passed_over)
            step.tell(Event("stale", entry.id, step.now_ms, passed_over.source, by=command.source))
        entry = msgspec.structs.replace(entry, commands=commands)
        if command.op == "replace":  # two large rows have no room in one step
            was, entry = entry, emptied(entry)
            step.changes.empty(key, was, entry, encode(entry, step.version))
            step.ids[entry.id] = None
        else:
            step.changes.rewrite(key, entry, encode(entry, step.version))
        if key in self._claims:
            self._claims[key] = entry

    def check_size(self, size: int) -> None:
        """Refuse a message that is too large to be held. Raises Refusal."""
        if size > self._limits.row:
            raise Refusal(
                Reason.TOO_LARGE,
                f"the stored message would have {size:,} bytes. The maximum is {self._limits.row:,}. Send less, or "
                f"raise max.message.bytes of {self._settings.changelog} and "
                f"{self._settings.forwards}{f' and {self._settings.cold}' if self._limits.cold else ''}, and restart.",
            )
