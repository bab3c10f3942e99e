"""Applies the outcome of a send to its rows (how-it-works.md#how-messages-are-delivered)."""

import logging
import zlib

import msgspec

from app.engine.steps import callbacks, dead_letters, occurrences
from app.engine.steps.bounds import BoundJoiner
from app.engine.steps.context import PartitionContext
from app.engine.steps.outcomes import Attempted, Called, Delivered, Dropped, Outcome, Rejected
from app.engine.steps.plain_deliveries import PlainDeliveries
from app.engine.steps.resent_series import give_back, with_given_back
from app.engine.steps.step import Step
from app.engine.steps.transitions import ended, move, skipped
from punctual.contract.events import Event, Kind
from punctual.contract.request import Reason
from tables import Command, Entry, keys
from tables.changes import RememberedDelivery
from tables.commands import in_order
from tables.counts import display_name
from tables.entry import encode

log = logging.getLogger(__name__)


#: Maximum number of tries of a callback, which take about twelve hours.
_TRIES = 24
#: First and longest wait between tries over HTTP; each is twice the previous one, give or take a quarter.
FIRST_MS, LONGEST_MS = 1_000, 3_600_000
#: A message that its host has not accepted three days after its due time becomes a dead letter: a receiver that is down
#: over a weekend gets its messages. Senders can shorten this with delay-max-late, which holds for attempts too.
HTTP_GIVE_UP_MS = 3 * 86_400_000
_JITTER = 0.25
_DOUBLINGS = 12


class OutcomeHandler:
    """Turns the outcomes of sends into steps, for one partition."""

    def __init__(self, context: PartitionContext) -> None:
        """Use the settings, claims, cold tier and command memory of a partition's `context`."""
        self._context, self._number, self._topics, self._destinations, self._retention = (
            context,
            context.number,
            context.settings.topics,
            context.settings.destinations,
            context.settings.retention,
        )
        self._claims, self._cold, self._memory = context.claims, context.cold, context.memory
        self._bounds, self._plain = BoundJoiner(context), PlainDeliveries(context)
        self._longest_ms = context.settings.retention.longest_dedupe_ms(context.settings.topics)

    def apply(self, step: Step, outcome: Outcome) -> None:
        """Add the effects of an outcome to `step`."""
        if isinstance(outcome, Delivered):
            self._delivered(step, outcome)
            return
        step.fired.append(outcome.row)
        entry = self._claims[outcome.row]
        if isinstance(outcome, Attempted) and entry.url is None:
            why, tries = outcome.why, entry.attempts + 1
            ended(step, "attempted", keys.due_of(outcome.row), entry, reason=why, attempts=tries)
        if entry.commands:  # it was not sent, so the commands given in flight come first
            self._apply_all(step, outcome.row, entry)
        elif isinstance(outcome, Rejected):
            self._rejected(step, outcome, entry)
        elif isinstance(outcome, Attempted):
            (self._attempted if entry.url is None else self._uncalled)(step, outcome, entry)
        elif isinstance(outcome, Called):
            step.remove(outcome.row, entry)
        elif isinstance(outcome, Dropped):
            step.remove(outcome.row, entry)
            ended(step, "dropped", keys.due_of(outcome.row), entry, late=outcome.late_ms, reason=outcome.reason)
            self._end(step, outcome.row, entry)

    def _delivered(self, step: Step, outcome: Delivered) -> None:
        where = f"{outcome.topic}-{outcome.partition}" if outcome.topic else None
        claims, default_ms, watermark_ms = (
            self._claims,
            self._retention.dedupe_window_ms,
            self._memory.watermark_ms,
        )
        for row, offset in self._plain.remove(step, outcome.rows, outcome.offset, where, outcome.sent_ms):
            entry, due = claims[row], keys.due_of(row)
            step.fired.append(row)
            step.remove(row, entry)
            late, place = outcome.sent_ms - due, None if where is None else f"{where}-{offset}"
            if entry.series is not None:
                ended(step, "delivered", due, entry, late=late, delivered=place)
                self._end(step, row, entry)
                continue
            window_ms = default_ms if entry.dedupe_ms is None else entry.dedupe_ms
            if window_ms:
                expires_ms = step.broker_ms + min(window_ms, self._longest_ms)
                delivered = RememberedDelivery(entry.asked_due(row), expires_ms)
                step.changes.delivered[entry.id] = delivered
                step.changes.size += len(entry.id.encode()) + 32
            if entry.stamp_ms >= watermark_ms or entry.moved is not None:
                self._memory.end(step, row, entry)
            step.tell(Event("delivered", entry.id, step.now_ms, entry.source, due, entry.to, late, place))
            if entry.commands:
                self._overtake(step, row, entry)

    def _overtake(self, step: Step, row: bytes, entry: Entry) -> None:
        """Add a conflict for each command on a row, because the row was delivered before."""
        for command in in_order(entry.commands):
            if command.op != "replace":
                ended(step, "conflict", keys.due_of(row), entry, by=command.source)
                self._leave(step, entry, command)

    def _end(self, step: Step, row: bytes, entry: Entry) -> None:
        """End the message in a row; in a series, the next occurrence takes its place, with the commands on the row."""
        onward = occurrences.Onward()
        if entry.series is not None and not entry.replaced:
            onward = occurrences.following(entry, row, step.broker_ms, occurrences.MOST_MISSED)
            onward = with_given_back(entry, onward)
        for passed in onward.passed:
            skipped(step, entry, passed)
        if onward.next is None:
            self._memory.end(step, row, entry)
            if entry.series is not None and entry.commands:
                self._overtake(step, row, entry)
            return
        due_ms, new = onward.next
        key = self._context.free_key(step, row, due_ms)
        step.put(key, new, encode(new, step.version))
        ended(step, "accepted", keys.due_of(key), new)
        if entry.commands:
            self._apply_all(step, key, msgspec.structs.replace(new, commands=entry.commands))

    def _rejected(self, step: Step, outcome: Rejected, entry: Entry) -> None:
        step.remove(outcome.row, entry)
        message = occurrences.occurrence(entry, keys.due_of(outcome.row))
        letter = dead_letters.rejected(
            self._topics.dead_letters,
            self._context.limits.dead_letter,
            self._number,
            outcome.row,
            message,
            outcome.reason,
            outcome.sentence,
        )
        step.reject(letter, outcome.reason)
        self._call_back(step, outcome, entry)
        ended(step, "rejected", keys.due_of(outcome.row), entry, reason=outcome.reason.value)
        self._end(step, outcome.row, entry)

    def _call_back(self, step: Step, outcome: Rejected, entry: Entry) -> None:
        """Queue the failure callback of a message, in the dialect of the input that its source names."""
        due_ms, body = keys.due_of(outcome.row), None
        returned = self._topics.dialect(entry.source.rsplit("-", 2)[0]).returned
        if entry.on_failure is not None and returned is not None:
            body = returned(occurrences.occurrence(entry, due_ms), due_ms)
        callbacks.queue(self._context, step, outcome.row, entry, outcome.reason, outcome.sentence, body)

    def _uncalled(self, step: Step, outcome: Attempted, entry: Entry) -> None:
        """Schedule the next try of a callback, or give the callback up: its dead letter exists already."""
        step.remove(outcome.row, entry)
        tries = entry.attempts + 1
        if tries >= _TRIES or outcome.never:
            log.error("the failure callback of %s is abandoned after %d attempts: %s", entry.source, tries, outcome.why)
            return
        again = msgspec.structs.replace(entry, attempts=tries)
        due_ms = step.broker_ms + wait_ms(tries, entry.source, outcome.after_ms)
        step.put(self._context.free_key(step, outcome.row, due_ms), again, encode(again, step.version))

    def _attempted(self, step: Step, outcome: Attempted, entry: Entry) -> None:
        """Schedule the next try of a message in its own row, or reject the message."""
        row, failed = outcome.row, entry.attempts + 1
        last_ms = keys.due_of(row) + HTTP_GIVE_UP_MS
        # Brokers' time is used because the worker's clock can jump by an hour or a year.
        if outcome.never or step.broker_ms >= last_ms:
            self._rejected(step, Rejected(row, Reason.UNDELIVERABLE, _given_up(outcome, failed, entry)), entry)
            return
        next_ms = min(step.broker_ms + wait_ms(failed, entry.source, outcome.after_ms), last_ms)
        waiting = msgspec.structs.replace(entry, attempts=failed, next_try_ms=next_ms)
        step.changes.rewrite(row, waiting, encode(waiting, step.version))
        step.again[row] = next_ms
        del self._claims[row]  # a command in the same step finds the row waiting

    def _miss(self, step: Step, entry: Entry, command: Command) -> None:
        """Report a command on a row as unknown, because an earlier command has ended the message."""
        if command.op != "replace":
            step.tell(Event("unknown", entry.id, step.now_ms, command.source, by=command.source))
            self._leave(step, entry, command)

    def _leave(self, step: Step, entry: Entry, command: Command) -> None:
        """Remember a command for a late request, unless a later request has taken the id."""
        if not entry.replaced and command.stamp_ms >= 0:
            self._memory.wait(step, entry.id, command)

    def _apply_all(self, step: Step, row: bytes, entry: Entry) -> None:
        """Apply the commands on a row that was not sent, in their order, as if the row had been waiting."""
        known = {entry.id: step.ids[entry.id]} if entry.id in step.ids else {}
        moved_by, there, by = "", True, None
        for command in in_order(entry.commands):
            if not there:
                self._miss(step, entry, command)
            elif not (occurrences.is_meant(entry, keys.due_of(row), command) and occurrences.allows(entry, command.op)):
                ended(step, "conflict", keys.due_of(row), entry, by=command.source)
                self._memory.overlook(step, entry, command)
            elif command.op in ("replace", "cancel"):
                step.remove(row, entry)
                event: Kind = "cancelled" if command.op == "cancel" else "replaced"
                ended(step, event, keys.due_of(row), entry, by=command.source)
                if command.op == "cancel":
                    self._memory.end(step, row, entry, command)
                there, by = False, command if command.op == "replace" else None
            else:
                self._memory.outdo(step, row, entry, command)
                new = move(step, row, entry, command)
                if new is None:
                    self._memory.end(step, row, entry, command)
                    there = False
                    continue
                row, moved_by = new, command.source
                entry = msgspec.structs.replace(step.changes.puts[row][0], commands=entry.commands)
        stamp_ms = entry.moved.stamp_ms if entry.moved is not None and entry.moved.stamp_ms >= 0 else step.broker_ms
        if there and moved_by and self._cold.settle(step, row, moved_by, stamp_ms):
            self._memory.end(step, row, entry)
        if entry.replaced:  # the id belongs to another row, which may be new in this step
            step.ids.pop(entry.id, None)
            step.ids.update(known)
        if by is not None and not give_back(self._context, step, entry, by):
            self._bounds.pass_on(step, entry, by)


def _given_up(outcome: Attempted, failed: int, entry: Entry) -> str:
    """Return the error of the dead letter for a message that is given up."""
    to, tries = display_name(entry.to), f"{failed} {'attempt' if failed == 1 else 'attempts'}"
    if outcome.never:
        return (
            f"{to} answered that it accepts no more messages at this URL ({outcome.why}, after {tries}). "
            "Send the message again to another URL, or when the receiver is back."
        )
    return (
        f"{to} has not accepted the message within three days of its due time, in {tries}. The last "
        f"failure: {outcome.why}. Fix the cause, then send the message again."
    )


def wait_ms(failed: int, source: str, after_ms: int | None = None) -> int:
    """Return the wait in milliseconds after the `failed`-th failed try of a message, at least `after_ms`.

    It depends only on source and number, so a step that is repeated after a crash decides the same.
    """
    average_ms = min(LONGEST_MS, FIRST_MS << min(failed - 1, _DOUBLINGS))
    share = zlib.crc32(f"{source} {failed}".encode()) / 0xFFFFFFFF
    return max(round(average_ms * (1 - _JITTER + 2 * _JITTER * share)), after_ms or 0)
