"""Forwards: requests on their way to the partition where their id lives, as partitions write them (docs/reference)."""

import msgspec

from app.contract import request
from app.contract.native import Record
from app.contract.request import Reason, Refusal, Request

_ID_BYTES, _LATEST_MS = 256, 1 << 55


def decode(record: Record) -> Request:
    """Return the request that another partition has sent home.

    Raises Refusal for what no partition writes: others may write to the topic.
    """
    try:
        asked = request.decode(record.value or b"")
    except msgspec.DecodeError as error:
        raise Refusal(Reason.MALFORMED, f"this is no forward of Punctual's: {error}.") from error
    if not _makes_sense(asked):
        raise Refusal(Reason.MALFORMED, "this is no forward of Punctual's: no request says so.")
    return asked


def _makes_sense(asked: Request) -> bool:
    """Whether a partition could have written it: what is held rests on it."""
    parts = asked.source.rsplit("-", 2)
    times = (asked.due_ms, asked.stamp_ms)
    return (
        len(parts) == 3  # noqa: PLR2004 - topic, partition and offset
        and all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts[1:])  # noqa: PLR2004 - a long
        and 0 < len(asked.id.encode()) <= _ID_BYTES
        and all(0 <= time < _LATEST_MS for time in times)
        and (asked.op != "schedule" or bool(asked.to))
        and (asked.partition is None or 0 <= asked.partition < 1 << 31)
    )
