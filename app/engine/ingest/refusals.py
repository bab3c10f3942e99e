"""Refusals of requests: a dead letter, an event, and the failure callback that the request names."""

from app.engine.ingest.quotas import Quotas
from app.engine.steps import callbacks, dead_letters
from app.engine.steps.context import PartitionContext
from app.engine.steps.step import OutgoingRecord, Step
from punctual.contract import native, recurring
from punctual.contract.dialects.dialects import Dialect
from punctual.contract.events import Event
from punctual.contract.record import Record
from punctual.contract.request import Reason, Refusal, Request
from tables import Entry, keys


class RefusalWriter:
    """Writes the dead letters, callbacks and events of refused requests in one partition."""

    def __init__(self, context: PartitionContext, quotas: Quotas | None) -> None:
        """Serve the partition of a context; namespaces whose `quotas` are used up get no callbacks."""
        self._context, self._quotas = context, quotas
        self._number, self._topics, self._destinations, self._limits = (
            context.number,
            context.settings.topics,
            context.settings.destinations,
            context.limits,
        )

    def refuse(self, step: Step, record: Record, refusal: Refusal) -> None:
        """Add the dead letter, callback and event of a refused record to `step`."""
        dialect, topic = self._topics.dialect(record.topic), self._topics.dead_letters
        dead_letter = dead_letters.refused(
            dialect, topic, self._limits.dead_letter, record, refusal.reason, refusal.sentence
        )
        step.reject(dead_letter._replace(partition=self._number), refusal.reason)
        source = f"{record.topic}-{record.partition}-{record.offset}"
        self._call_back(step, dialect, record, source, refusal)
        step.tell(Event("refused", source, step.now_ms, source, reason=refusal.reason.value))

    def refuse_forwarded(self, step: Step, request: Request, refusal: Refusal) -> None:
        """Add the dead letter and event of a forwarded request that its home partition refuses to `step`.

        The dead letter is in the native dialect, because the original record is in another partition.
        """
        due_ms = request.due_ms if request.recurrence is None else request.planned_ms
        series = () if request.recurrence is None else recurring.write(request.recurrence)
        headers = [*native.again(request, due_ms), *((name, text.encode()) for name, text in series)]
        letter = OutgoingRecord(self._topics.dead_letters, self._number, request.key, request.value, headers)
        step.reject(dead_letters.signed(letter, self._limits.dead_letter, refusal, request.source), refusal.reason)
        step.tell(Event("refused", request.id, step.now_ms, request.source, reason=refusal.reason.value))

    def refuse_parked(self, step: Step, key: bytes, entry: Entry, refusal: Refusal) -> None:
        """Add the dead letter, callback and event of a message that the cold tier sends back to `step`.

        The dead letter lacks the tier's headers, so that it can be sent again unchanged. `key` is the row key that the
        message would have had, with its due time.
        """
        letter = dead_letters.rejected(
            self._topics.dead_letters,
            self._limits.dead_letter,
            self._number,
            key,
            entry,
            refusal.reason,
            refusal.sentence,
        )
        step.reject(letter, refusal.reason)
        if self._may_call(
            entry.on_failure, entry.source.rsplit("-", 2)[0]
        ):  # anyone can write a request that looks like the tier's
            callbacks.queue(self._context, step, key, entry, refusal.reason, refusal.sentence)
        step.tell(Event("refused", entry.id, step.now_ms, entry.source, reason=refusal.reason.value))

    def _call_back(self, step: Step, dialect: Dialect, record: Record, source: str, refusal: Refusal) -> None:
        """Queue the failure callback that a refused record names, if the settings allow its URL."""
        url, users = dialect.callback(record)
        if not self._may_call(url, record.topic) or refusal.reason is Reason.QUOTA:  # the callback would use quota too
            return
        if self._quotas is not None and self._quotas.is_full(self._topics.namespaces.of_topic(record.topic)):
            return
        failed = Entry(source, "", record.key, record.value, users, source, on_failure=url)
        row = keys.row_key(0, record.offset, keys.topic_crc(record.topic))
        body = None if dialect.returned is None else record.value
        callbacks.queue(self._context, step, row, failed, refusal.reason, refusal.sentence, body)

    def _may_call(self, url: str | None, source: str) -> bool:
        """Return whether the settings allow a URL for requests on the input `source`."""
        return url is not None and callbacks.is_allowed(url, self._destinations.callback_list(source))
