"""Spans have links to the senders' traces, never parents, and follow the conventions."""

from types import SimpleNamespace

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, use_span

from app.base.http.answers import answer_of
from app.base.http.target import target_of
from app.engine.steps.step import Step
from app.engine.traces.traces import MAX_LINKS, Headers, Sent, Traces
from app.kafka.errors import TooLarge
from app.settings.settings import Settings
from tables import Entry
from tests.punctual.contract.records import NOW, FakeRecord
from tests.tables.rows import entry

TRACE = "0af7651916cd43dd8448eb211c80319c"


class Made(InMemorySpanExporter):
    """The recorded spans, and the object that makes them."""

    def __init__(self) -> None:
        super().__init__()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self))
        self.tracer = provider.get_tracer("test")
        self.traces = Traces(Settings.from_env({}).topics, provider)

    def one(self) -> ReadableSpan:
        """Return the only span."""
        [span] = self.get_finished_spans()
        return span


@pytest.fixture
def made() -> Made:
    return Made()


def traced(span: int) -> Headers:
    return [("traceparent", f"00-{TRACE}-{span:016x}-01".encode())]


def record(topic: str, headers: Headers) -> FakeRecord:
    return FakeRecord(list(headers), topic=topic)


def batch(*messages: Headers) -> Sent:
    owner = SimpleNamespace(
        claims={b"%d" % number: SimpleNamespace(headers=headers) for number, headers in enumerate(messages)}
    )
    rows = [(owner, key) for key in owner.claims]
    return SimpleNamespace(route=(None, "orders", 3), rows=[*rows, (owner, b"gone")], sent_ms=NOW)


def row_for_url(headers: Headers) -> Entry:
    return msgspec.structs.replace(entry("a", "https://hooks.example.com/x"), headers=list(headers))


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def test_a_batch_is_linked_to_those_who_asked_and_begins_a_trace_of_its_own(made: Made) -> None:
    with use_span(made.tracer.start_span("of somebody else")):
        made.traces.sent(batch(traced(1), [], traced(2), traced(1)))
    span = made.one()
    assert (span.name, span.kind, span.parent, linked(span)) == ("send orders", SpanKind.CLIENT, None, [1, 2])
    assert span.start_time == NOW * 1_000_000
    assert span.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "messaging.batch.message_count": 5,
    }


def test_what_will_never_be_taken_says_why(made: Made) -> None:
    made.traces.sent(batch(traced(1)), TooLarge("orders"))
    span = made.one()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, str(TooLarge("orders")))
    assert (span.attributes or {})["error.type"] == "TooLarge"


def test_a_step_has_a_span_for_each_input_that_it_read_and_none_for_forwards(made: Made) -> None:
    step = Step(NOW)
    step.read = [
        [record("delay-requests", traced(1)), record("delay-requests", [])],
        [record("delay-forwards", traced(2))],
        [record("retries", traced(3))],
        [record("delay-requests", traced(4))],
        [],
    ]
    made.traces.committed(2, step)
    spans = {span.name: span for span in made.get_finished_spans()}
    assert {name: linked(span) for name, span in spans.items()} == {
        "process delay-requests": [1, 4],
        "process retries": [3],
    }
    span = spans["process delay-requests"]
    assert (span.kind, span.parent, span.start_time) == (SpanKind.CONSUMER, None, NOW * 1_000_000)
    assert span.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "delay-requests",
        "messaging.destination.partition.id": "2",
        "messaging.consumer.group.name": "delay",
        "messaging.batch.message_count": 3,
    }


def test_deliveries_of_a_step_are_traced_with_it(made: Made) -> None:
    step = Step(NOW)
    step.deliveries = [batch(traced(1)), batch(traced(2))]
    made.traces.committed(0, step)
    assert [linked(span) for span in made.get_finished_spans()] == [[1], [2]]


def test_a_post_is_linked_to_who_asked_and_begins_a_trace_of_its_own(made: Made) -> None:
    row = row_for_url(traced(1))
    with use_span(made.tracer.start_span("of somebody else")):
        made.traces.posted(row, target_of(row.to), answer_of(204, None, 0), NOW)
    span = made.one()
    assert (span.name, span.kind, span.parent, linked(span)) == ("POST", SpanKind.CLIENT, None, [1])
    assert span.start_time == NOW * 1_000_000
    assert (span.attributes or {})["http.response.status_code"] == 204
    assert span.status.is_unset


def test_a_failed_post_has_the_reason_and_an_untraced_one_makes_no_span(made: Made) -> None:
    target, refused = target_of("https://hooks.example.com/x"), answer_of(503, None, 0)
    made.traces.posted(row_for_url([]), target, refused, NOW)
    made.traces.posted(row_for_url(traced(1)), target, refused, NOW)
    assert (made.one().status.status_code, made.one().status.description) == (StatusCode.ERROR, "HTTP 503")


def test_the_number_of_links_is_limited(made: Made) -> None:
    made.traces.sent(batch(*(traced(number) for number in range(1, 501))))
    assert linked(made.one()) == [*range(1, MAX_LINKS + 1)]
    assert made.one().dropped_links == 0


def test_untraced_messages_make_no_span(made: Made) -> None:
    made.traces.sent(batch([], [("traceparent", b"nonsense")]))
    made.traces.committed(0, Step(NOW))
    assert not made.get_finished_spans()
