"""Forwards: requests on their way to the home partition of their id, as partitions write them."""

import msgspec

from punctual.contract import recurring, request
from punctual.contract.record import Record
from punctual.contract.request import ID_BYTES, TOPIC_NAME, Reason, Refusal, Request

#: The maximum length of a URL (records.md#http-deliveries).
_LONGEST_URL = 2_048
#: Exclusive maximums of times and spans, offsets, and partitions.
_LATEST_MS, _OFFSETS, _PARTITIONS = 1 << 55, 1 << 62, 1 << 31


def decode(record: Record) -> Request:
    """Return the request in a forward from another partition.

    Raises Refusal for a record that no partition writes, because other clients may write to the topic.
    """
    try:
        result = request.decode(record.value or b"")
        possible = _is_possible(result)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Refusal(Reason.MALFORMED, f"this is not a forward of Punctual: {error}.") from error
    if not possible:
        raise Refusal(Reason.MALFORMED, "this is not a forward of Punctual: no partition sends such a request.")
    return result


def _is_possible(request: Request) -> bool:
    """Return whether a partition can have written the request; raises ValueError if its source is invalid."""
    topic, partition, offset = request.source.rsplit("-", 2)
    numbers = (partition, offset)
    spans = (
        *(
            request.due_ms,
            request.stamp_ms,
            request.max_late_ms,
            request.dedupe_ms,
            request.if_due_ms,
            request.no_later_ms,
        ),
        None if request.parked is None else request.parked.first_ms,
    )
    return (
        bool(topic)
        and all(number.isascii() and number.isdigit() for number in numbers)
        and int(partition) < _PARTITIONS
        and int(offset) < _OFFSETS
        and 0 < len(request.id.encode()) <= ID_BYTES
        and all(span is None or 0 <= span < _LATEST_MS for span in spans)
        and (request.op != "schedule" or TOPIC_NAME.fullmatch(request.to) is not None or _is_url(request))
        and (request.partition is None or 0 <= request.partition < _PARTITIONS)
        and (request.recurrence is None or recurring.is_possible(request.recurrence))
    )


def _is_url(request: Request) -> bool:
    """Return whether it is for a URL; whether the address is allowed is checked when it is delivered."""
    alone = request.cluster is None and request.partition is None
    return alone and len(request.to) <= _LONGEST_URL and request.to.startswith(("https://", "http://"))
