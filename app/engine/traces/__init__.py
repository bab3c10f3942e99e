"""Spans of traced messages for OpenTelemetry, which is only imported if tracing is on."""

import os
from typing import TYPE_CHECKING

from app.base.errors import TracesUnusable
from app.settings.settings import Settings
from app.settings.values import words

if TYPE_CHECKING:
    from app.engine.traces.traces import Traces


def traces_of(settings: Settings) -> "Traces | None":
    """Return a maker of spans if OTEL_TRACES_EXPORTER, a variable of OpenTelemetry's, has `otlp`; otherwise None.

    Raises TracesUnusable if OpenTelemetry is not installed.
    """
    if "otlp" not in words(os.environ.get("OTEL_TRACES_EXPORTER", "")):
        return None
    try:
        from app.engine.traces.traces import Traces, provider  # noqa: PLC0415 - an extra, and 0.3 s that only those pay who want it
    except ModuleNotFoundError as error:
        raise TracesUnusable(error.name) from error
    return Traces(settings.topics, provider(settings))
