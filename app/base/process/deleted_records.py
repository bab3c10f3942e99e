"""Requests that retention, or an operator, has deleted before they were read."""

import logging

log = logging.getLogger(__name__)


def note_deleted(topic: str, number: int, first: int, begin: int) -> None:
    """Log that the records of an input from `first` to before `begin` were deleted before they were read."""
    log.error(
        "%s-%d: records %d to %d were deleted before they were read, because the topic's retention is shorter than "
        "the lag. Raise its retention.ms, and send the lost requests again.",
        topic,
        number,
        first,
        begin - 1,
        extra={"topic": topic, "partition": number, "offset": first},
    )
