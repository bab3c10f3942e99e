"""Spans of what is done to messages that are traced, for OpenTelemetry. Nothing of it is imported while it is off."""

from typing import TYPE_CHECKING

from app.base.errors import TracesUnusable
from app.settings.settings import Settings

if TYPE_CHECKING:
    from app.engine.traces.traces import Traces


def traces_of(settings: Settings) -> "Traces | None":
    """Return what makes spans as DELAY_TRACES wants it, None if that is off.

    Raises TracesUnusable if it is not installed.
    """
    if settings.traces != "on":
        return None
    try:
        from app.engine.traces.traces import Traces, provider  # noqa: PLC0415 - an extra, and 0.3 s that only those pay who want it
    except ModuleNotFoundError as error:
        raise TracesUnusable(error.name) from error
    return Traces(settings, provider(settings))
