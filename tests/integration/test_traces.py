"""A worker's spans reach an OTLP/HTTP receiver with links to requests; messages keep their context unchanged."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.harness.kafka import now_ms
from tests.harness.waiting import eventually
from tests.integration.conftest import Run
from tests.integration.installation import Installation

pytestmark = pytest.mark.core

_TRACE = "0af7651916cd43dd8448eb211c80319c"
#: Passed on unchanged, even a version from the future and a name in other case.
_ODD = [
    ("traceparent", f"00-{_TRACE}-00000000000000ff-00".encode()),
    ("traceparent", f"cc-{_TRACE}-b7ad6b7169203331-01-what-is-new".encode()),
    ("Traceparent", b"\xff\x00 no text"),
]


class Collector(ThreadingHTTPServer):
    """Takes what exporters post."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[ExportTraceServiceRequest] = []
        #: The paths of all other posts.
        self.posted: list[str] = []

    def spans(self, name: str) -> list[Span]:
        """Return the spans of this name that have come, with a link."""
        scopes = [scope for one in self.requests for of in one.resource_spans for scope in of.scope_spans]
        return [span for scope in scopes for span in scope.spans if span.name == name and span.links]

    def linked(self, name: str) -> set[int]:
        """Return the spans that those of this name have links to."""
        return {int.from_bytes(link.span_id) for span in self.spans(name) for link in span.links}


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path == "/v1/traces":
            self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        else:
            self.server.posted.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log no requests."""


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever, args=(0.05,))
        thread.start()
        yield collector
        collector.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture(scope="module", params=["at_least_once", "exactly_once"])
def installation(run: Run, collector: Collector, request: pytest.FixtureRequest) -> Iterator[Installation]:
    collector.requests.clear()
    env = {
        "DELAY_GUARANTEE": request.param,
        "OTEL_TRACES_EXPORTER": "otlp",
        "DELAY_HTTP_DESTINATIONS": "http://127.0.0.1:*",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_address[1]}",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    with run(f"traces-{request.param.replace('_', '-')}", env=lambda _: env) as made:
        yield made


def test_spans_are_linked_to_requests_and_messages_keep_their_context(
    installation: Installation, collector: Collector
) -> None:
    to, soon = installation.topic(), str(now_ms() + 300).encode()
    asked = [("delay-to", to.encode()), ("delay-at", soon)]
    for number in range(1, 6):
        parent = ("traceparent", f"00-{_TRACE}-{number:016x}-01".encode())
        installation.requests.send([*asked, parent, ("tracestate", b"v=1")], b"k", b"v")
    installation.requests.send([*asked, *_ODD], b"k", b"odd")
    installation.requests.flush()

    delivered = installation.wait_for(to, 6)
    kept = {bytes(record.value or b""): record.headers for record in delivered}
    assert ("tracestate", b"v=1") in kept[b"v"]
    assert [pair for pair in kept[b"odd"] if pair[0].lower() == "traceparent"] == _ODD
    process, send = f"process {installation.app_id}-requests", f"send {to}"
    eventually(lambda: collector.linked(process) == collector.linked(send) == {1, 2, 3, 4, 5}, what="the spans")
    for span in (*collector.spans(process), *collector.spans(send)):
        assert not span.parent_span_id
        assert span.trace_id.hex() != _TRACE
        assert {link.trace_id.hex() for link in span.links} == {_TRACE}
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
    said = {pair.key: pair.value.string_value for pair in collector.requests[0].resource_spans[0].resource.attributes}
    assert (said["service.name"], said["deployment.environment.name"]) == ("punctual", "test")
    assert said["service.instance.id"] == installation.worker.url


def test_a_post_makes_a_span_that_is_linked_and_tells_no_path(installation: Installation, collector: Collector) -> None:
    origin = f"http://127.0.0.1:{collector.server_address[1]}"
    parent = ("traceparent", f"00-{_TRACE}-{99:016x}-01".encode())
    installation.requests.send(
        [("delay-to", f"{origin}/hooks/s3cret".encode()), ("delay-after", b"0"), parent], b"k", b"v"
    )
    installation.requests.flush()
    eventually(lambda: collector.linked("POST") == {99}, what="the span of the post")
    [span] = collector.spans("POST")
    said = {pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes}
    assert (said["url.full"], said["http.response.status_code"]) == (f"{origin}/REDACTED", 200)
    assert "/hooks/s3cret" in collector.posted
