"""Spans of steps that took requests in, and of what was sent or posted: linked to the traces of those who asked for it.

Years may lie between a request and its delivery, and one batch has messages of many: so these are links, and the spans
begin traces of their own. What nobody traces makes no span.
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

#: As many as OpenTelemetry's SDK keeps by default.
MAX_LINKS: Final = 128
#: A collector that does not answer does not hold up a worker that ends for longer.
_CLOSE_S = 2.0
#: Stands for a path and a query: they may hold secrets, and be as many as there are messages.
_REDACTED = "/REDACTED"
_PARENT, _STATE = "traceparent", "tracestate"
_extract = TraceContextTextMapPropagator().extract

Headers = Sequence[tuple[str, bytes | None]]


class Sent(Protocol):
    """A batch for one destination partition, sent at `sent_ms`; its rows by who has them."""

    sent_ms: int

    @property
    def route(self) -> Route:
        """Where it went."""
        ...

    @property
    def rows(self) -> Iterable[tuple[Any, bytes]]:
        """Each row's partition and key."""
        ...


class Traces:
    """Makes the spans of one worker."""

    def __init__(self, topics: TopicSettings, provider: TracerProvider) -> None:
        """Make them with `provider`, which hands them on."""
        self._provider = provider
        self._tracer = provider.get_tracer("punctual", VERSION)
        self._group, self._forwards = topics.app_id, topics.forwards

    def committed(self, partition: int, step: Step) -> None:
        """Tell of a step that is committed: what it has taken in, and sent if that was part of it."""
        by_topic: dict[str, list[Headers]] = {}
        for records in step.read:
            if records and records[0].topic != self._forwards:  # which were taken in before
                by_topic.setdefault(records[0].topic, []).extend(record.headers for record in records)
        for topic, messages in by_topic.items():
            also: dict[str, AttributeValue] = {"messaging.consumer.group.name": self._group}
            span = self._span("process", (topic, partition), messages, len(messages), step.now_ms, also)
            if span is not None:
                span.end()
        for delivery in step.deliveries:
            self.sent(delivery)

    def sent(self, delivery: Sent, error: Exception | None = None) -> None:
        """Tell of a batch that was sent, or that will never be taken; its rows are still claimed."""
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
        """Tell of a row that was posted to a URL, and what came of it."""
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
        """Return a span that has begun, None if none of the messages is traced."""
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
        # Messages keep the context that they came with, so what sends them is a client by the conventions.
        kind = SpanKind.CONSUMER if operation == "process" else SpanKind.CLIENT
        return self._begin(f"{operation} {topic}", kind, attributes | also, links, began_ms)

    def _links(self, messages: Iterable[Headers]) -> list[Link]:
        return [Link(context) for context in contexts_of(messages, MAX_LINKS)]

    def _begin(
        self, name: str, kind: SpanKind, attributes: dict[str, AttributeValue], links: list[Link], began_ms: int
    ) -> Span:
        """Return a span that has begun: of a trace of its own, whoever else may be tracing here."""
        began_ns = began_ms * 1_000_000
        return self._tracer.start_span(
            name, Context(), kind=kind, attributes=attributes, links=links, start_time=began_ns
        )

    async def close(self) -> None:
        """Hand on what is left, as far as the collector takes it at once."""
        closing = Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        await asyncio.get_running_loop().run_in_executor(None, closing.join, _CLOSE_S)


def contexts_of(messages: Iterable[Headers], limit: int) -> list[SpanContext]:
    """Return the contexts of messages by their headers, each once, at most `limit`: those that are recorded."""
    found: dict[tuple[int, int], SpanContext] = {}
    for headers in messages:
        for name, value in headers:
            if name == _PARENT:
                context = _context(headers, value)
                if context.is_valid and context.trace_flags.sampled:
                    found.setdefault((context.trace_id, context.span_id), context)
                break
        if len(found) == limit:
            break
    return list(found.values())


def _context(headers: Headers, parent: bytes | None) -> SpanContext:
    """Return the context that headers tell; one that is not valid if they tell nothing that makes sense."""
    told = {_PARENT: (parent or b"").decode("ascii", "replace")}
    for name, value in headers:
        if name == _STATE and value is not None:
            told[_STATE] = value.decode("ascii", "replace")
    return get_current_span(_extract(told)).get_span_context()


def attributes_of(to: UrlTarget, attempts: int, answer: HttpOutcome) -> dict[str, AttributeValue]:
    """Return the attributes of a post that came after so many others, and of what came of it.

    They follow the semantic conventions for HTTP clients, without what a URL may keep secret.
    """
    rest = to.url.raw_path_qs
    found: dict[str, AttributeValue] = {
        "http.request.method": "POST",
        "url.full": to.origin + (rest if rest == "/" else _REDACTED),
        "server.address": to.host,
        "server.port": to.port,
    }
    if attempts:
        found["http.request.resend_count"] = attempts
    if answer.status:
        found["http.response.status_code"] = answer.status
    if answer.meaning is not Meaning.TAKEN:
        found["error.type"] = str(answer.status or answer.why.replace(" ", "_"))
    return found


def provider(settings: Settings) -> TracerProvider:
    """Return what hands spans to an exporter in a thread of its own; more than it can keep are dropped.

    They go over OTLP/HTTP, as the variables of OpenTelemetry's SDK say.
    """
    ours = {"service.name": "punctual", "service.version": VERSION, "service.instance.id": settings.process.url}
    resource = Resource.create(ours).merge(OTELResourceDetector().detect())  # what operators say of it wins
    made = TracerProvider(resource=resource, span_limits=SpanLimits(max_links=MAX_LINKS), shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made
