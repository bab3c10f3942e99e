"""The contexts that messages carry: who asked for them, and in which trace."""

from collections.abc import Iterable, Sequence

from opentelemetry.trace import SpanContext, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PARENT, _STATE = "traceparent", "tracestate"
_extract = TraceContextTextMapPropagator().extract

Headers = Sequence[tuple[str, bytes | None]]


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
