"""JSON with thousands of levels is refused as an answer, an event and a message, also by the command line."""

from types import SimpleNamespace

import pytest

from punctual.cli.errors import CommandError
from punctual.cli.events import event_of
from punctual.cli.exported import Exported

DEEP = b'{"a":' * 10_000


def test_an_event_in_too_many_layers_is_none() -> None:
    record = SimpleNamespace(topic="delay-events", partition=1, offset=7, value=DEEP)
    with pytest.raises(CommandError, match="the record delay-events-1-7 is not an event"):
        event_of(record)


def test_a_line_in_too_many_layers_cannot_be_imported() -> None:
    with pytest.raises(ValueError, match="too many levels of nesting"):
        Exported.read(DEEP)
