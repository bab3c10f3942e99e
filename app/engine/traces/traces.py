"""Spans of steps with requests, and of deliveries, linked to the traces of the senders.

Years may pass between a request and its delivery, and a batch has messages of many senders. So spans have links and
begin traces of their own. Messages without a trace cause no span.
"""

import asyncio
from collections.abc import Iterable, Sequence
from threading import Thread
from typing import Any, Final, Protocol

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from app.base.http.answers import HttpOutcome, Meaning
from app.base.http.target import UrlTarget
from app.base.version import VERSION
from app.engine.steps.route import Route
from app.engine.steps.step import Step
from app.settings.settings import Settings
from app.settings.topics import TopicSettings
from tables import Entry

#: The default maximum of OpenTelemetry's SDK.
MAX_LINKS: Final = 128
#: Maximum seconds for which a collector that does not answer delays the end of a worker.
_CLOSE_S = 2.0
#: Replaces a path and a query, which may hold secrets and differ for each message.
_REDACTED = "/REDACTED"
_PARENT, _STATE = "traceparent", "tracestate"
_extract = TraceContextTextMapPropagator().extract

Headers = Sequence[tuple[str, bytes | None]]


class Sent(Protocol):
    """A batch for one destination partition, sent at `sent_ms`, and its rows with their owners."""

    sent_ms: int

    @property
    def route(self) -> Route:
        """The route of the batch."""
        ...

    @property
    def rows(self) -> Iterable[tuple[Any, bytes]]:
        """Each row's owner, a partition, and key."""
        ...


class Traces:
    """Makes the spans of one worker."""

    def __init__(self, topics: TopicSettings, provider: TracerProvider) -> None:
        """Make the spans with `provider`, which exports them."""
        self._provider = provider
        self._tracer = provider.get_tracer("punctual", VERSION)
        self._group, self._forwards = topics.app_id, topics.forwards

    def committed(self, partition: int, step: Step) -> None:
        """Make the spans of a committed step: of its requests, and of the deliveries in it."""
        by_topic: dict[str, list[Headers]] = {}
        for records in step.read:
            if records and records[0].topic != self._forwards:  # forwards have their span already
                by_topic.setdefault(records[0].topic, []).extend(record.headers for record in records)
        for topic, messages in by_topic.items():
            also: dict[str, AttributeValue] = {"messaging.consumer.group.name": self._group}
            span = self._span("process", (topic, partition), messages, len(messages), step.now_ms, also)
            if span is not None:
                span.end()
        for delivery in step.deliveries:
            self.sent(delivery)

    def sent(self, delivery: Sent, error: Exception | None = None) -> None:
        """Make the span of a batch that was sent, or failed for good; its rows are still claimed."""
        rows = list(delivery.rows)
        entries = (owner.claims.get(key) for owner, key in rows)
        messages = (entry.headers for entry in entries if entry is not None)
        span = self._span("send", delivery.route[1:], messages, len(rows), delivery.sent_ms, {})
        if span is None:
            return
        if error is not None:
            span.set_status(StatusCode.ERROR, str(error))
            span.set_attribute("error.type", type(error).__name__)
        span.end()

    def posted(self, entry: Entry, to: UrlTarget, answer: HttpOutcome, began_ms: int) -> None:
        """Make the span of a row that was posted to a URL, with the result."""
        links = self._links([entry.headers])
        if not links:
            return
        attributes = attributes_of(to, entry.attempts, answer)
        span = self._begin("POST", SpanKind.CLIENT, attributes, links, began_ms)
        if answer.meaning is not Meaning.TAKEN:
            span.set_status(StatusCode.ERROR, answer.why)
        span.end()

    def _span(
        self,
        operation: str,
        to: tuple[str, int],
        messages: Iterable[Headers],
        count: int,
        began_ms: int,
        also: dict[str, AttributeValue],
    ) -> Span | None:
        """Return a started span, None if none of the messages is traced."""
        links = self._links(messages)
        if not links:
            return None
        topic, partition = to
        attributes: dict[str, AttributeValue] = {
            "messaging.system": "kafka",
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(partition),
            "messaging.batch.message_count": count,
        }
        # Messages keep their own context, so by the conventions the sender is a client.
        kind = SpanKind.CONSUMER if operation == "process" else SpanKind.CLIENT
        return self._begin(f"{operation} {topic}", kind, attributes | also, links, began_ms)

    def _links(self, messages: Iterable[Headers]) -> list[Link]:
        return [Link(context) for context in contexts_of(messages, MAX_LINKS)]

    def _begin(
        self, name: str, kind: SpanKind, attributes: dict[str, AttributeValue], links: list[Link], began_ms: int
    ) -> Span:
        """Return a started span of a new trace, whichever other traces this process has."""
        began_ns = began_ms * 1_000_000
        return self._tracer.start_span(
            name, Context(), kind=kind, attributes=attributes, links=links, start_time=began_ns
        )

    async def close(self) -> None:
        """Export the remaining spans, as far as the collector accepts them at once."""
        closing = Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        await asyncio.get_running_loop().run_in_executor(None, closing.join, _CLOSE_S)


def contexts_of(messages: Iterable[Headers], limit: int) -> list[SpanContext]:
    """Return the sampled contexts in the headers of messages, each once, at most `limit`."""
    contexts: dict[tuple[int, int], SpanContext] = {}
    for headers in messages:
        for name, value in headers:
            if name == _PARENT:
                context = _context(headers, value)
                if context.is_valid and context.trace_flags.sampled:
                    contexts.setdefault((context.trace_id, context.span_id), context)
                break
        if len(contexts) == limit:
            break
    return list(contexts.values())


def _context(headers: Headers, parent: bytes | None) -> SpanContext:
    """Return the context in headers; an invalid one if they have none."""
    carrier = {_PARENT: (parent or b"").decode("ascii", "replace")}
    for name, value in headers:
        if name == _STATE and value is not None:
            carrier[_STATE] = value.decode("ascii", "replace")
    return get_current_span(_extract(carrier)).get_span_context()


def attributes_of(to: UrlTarget, attempts: int, answer: HttpOutcome) -> dict[str, AttributeValue]:
    """Return the attributes of a post after `attempts` earlier ones, and of its result.

    They follow the semantic conventions for HTTP clients, without the possibly secret parts of a URL.
    """
    rest = to.url.raw_path_qs
    attributes: dict[str, AttributeValue] = {
        "http.request.method": "POST",
        "url.full": to.origin + (rest if rest == "/" else _REDACTED),
        "server.address": to.host,
        "server.port": to.port,
    }
    if attempts:
        attributes["http.request.resend_count"] = attempts
    if answer.status:
        attributes["http.response.status_code"] = answer.status
    if answer.meaning is not Meaning.TAKEN:
        attributes["error.type"] = str(answer.status or answer.why.replace(" ", "_"))
    return attributes


def provider(settings: Settings) -> TracerProvider:
    """Return a provider that exports spans in its own thread, and drops spans while its queue is full.

    It exports over OTLP/HTTP, as configured by the variables of OpenTelemetry's SDK.
    """
    ours = {"service.name": "punctual", "service.version": VERSION, "service.instance.id": settings.process.url}
    resource = Resource.create(ours).merge(OTELResourceDetector().detect())  # operators' attributes win
    made = TracerProvider(resource=resource, span_limits=SpanLimits(max_links=MAX_LINKS), shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made
