"""Where spans go: over OTLP/HTTP, as the variables of OpenTelemetry's SDK say."""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from app.base.version import VERSION
from app.engine.traces.traces import MAX_LINKS
from app.settings.settings import Settings


def provider(settings: Settings) -> TracerProvider:
    """Return what hands spans to an exporter in a thread of its own; more than it can keep are dropped."""
    ours = {"service.name": "punctual", "service.version": VERSION, "service.instance.id": settings.url}
    resource = Resource.create(ours).merge(OTELResourceDetector().detect())  # what operators say of it wins
    made = TracerProvider(resource=resource, span_limits=SpanLimits(max_links=MAX_LINKS), shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made
