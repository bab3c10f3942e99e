"""docs/reference/records.md agrees with the fields of records."""

import re
from pathlib import Path
from typing import get_args

import msgspec

from app.engine.reports.reader import ProgressRecord
from punctual.contract import headers as names
from punctual.contract.events import Event, Kind
from punctual.contract.request import Reason

_PAGE = (Path(__file__).parents[2] / "docs/reference/records.md").read_text("utf-8")


def _documented(*headings: str) -> set[str]:
    """Return the names in the first columns of the sections' tables."""
    texts = [re.split(r"^## ", _PAGE.partition(f"\n## {heading}\n")[2], flags=re.MULTILINE)[0] for heading in headings]
    cells = [cell for text in texts for cell in re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_headers_are_documented() -> None:
    commands = {"cancel", "reschedule", "deliver-now", "pause", "resume"}
    assert _documented("Requests", "Commands") == names.REQUEST - {names.IF_DUE, names.PARKED} | commands
    assert _documented("Deliveries") == names.DELIVERY | {names.ATTEMPT}
    fields = {name for name in _documented("HTTP deliveries") if name.startswith(names.PREFIX)}
    assert fields == names.POST


def test_dead_letters_are_documented() -> None:
    assert _documented("Dead letters") == names.DEAD_LETTER | {reason.value for reason in Reason}


def test_events_and_their_fields_are_documented() -> None:
    told = {field.name for field in msgspec.structs.fields(Event)}
    assert _documented("Events") == told | set(get_args(Kind))


def test_fields_of_progress_are_documented() -> None:
    assert _documented("Progress") == {field.encode_name for field in msgspec.structs.fields(ProgressRecord)}
