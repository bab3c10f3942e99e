"""The names of all Kafka headers of the native contract (docs/reference/records.md); tests freeze them.

Names are lower-case ASCII, values UTF-8. Headers that do not begin with `PREFIX` belong to the user and are
delivered unchanged.
"""

from typing import Final

PREFIX: Final = "delay-"

TO: Final = "delay-to"
AT: Final = "delay-at"
AFTER: Final = "delay-after"
ID: Final = "delay-id"
TO_PARTITION: Final = "delay-to-partition"
TO_CLUSTER: Final = "delay-to-cluster"
MAX_LATE: Final = "delay-max-late"
IF_LATE: Final = "delay-if-late"
DEDUPE: Final = "delay-dedupe"
ON_FAILURE: Final = "delay-on-failure"
NO_LATER: Final = "delay-no-later"
JITTER: Final = "delay-jitter"
RETRY: Final = "delay-retry"
MAX_ATTEMPTS: Final = "delay-max-attempts"
ATTEMPT: Final = "delay-attempt"
EVERY: Final = "delay-every"
CRON: Final = "delay-cron"
ZONE: Final = "delay-zone"
UNTIL: Final = "delay-until"
COUNT: Final = "delay-count"
MISFIRE: Final = "delay-misfire"
OP: Final = "delay-op"
IF_DUE: Final = "delay-if-due"
ASKED_AT: Final = "delay-asked-at"

DUE: Final = "delay-due"
SOURCE: Final = "delay-source"

PARKED: Final = "delay-parked"
EPOCH: Final = "delay-epoch"
FIRST: Final = "delay-first"

REASON: Final = "delay-reason"
ERROR: Final = "delay-error"

RECURRENCE: Final = frozenset({EVERY, CRON, ZONE, UNTIL, COUNT, MISFIRE})
"""Headers of the schedule of a recurring message (docs/reference/recurring-messages.md)."""

REQUEST: Final = RECURRENCE | frozenset(
    {TO, AT, AFTER, ID, TO_PARTITION, TO_CLUSTER, MAX_LATE, IF_LATE, DEDUPE, ON_FAILURE, OP, IF_DUE, ASKED_AT, PARKED}
    | {NO_LATER, JITTER, RETRY, MAX_ATTEMPTS, ATTEMPT}
)
"""Headers of requests and commands (records.md#requests); `PARKED` only in requests from the cold tier."""

DELIVERY: Final = frozenset({ID, DUE, SOURCE})
"""Headers that every delivery has in addition to the user's (records.md#deliveries); retries have `ATTEMPT` too."""

POST: Final = DELIVERY | {ATTEMPT}
"""Header fields of every delivery over HTTP (records.md#http-deliveries)."""

DEAD_LETTER: Final = frozenset({REASON, ERROR, SOURCE})
"""Headers that every dead letter has in addition to the original ones (records.md#dead-letters)."""

COLD: Final = frozenset({SOURCE, PARKED, EPOCH, FIRST})
"""Headers that records of the cold topic have in addition to the request's (docs/reference/cold-topic.md)."""

IGNORED: Final = (POST | DEAD_LETTER | COLD) - REQUEST
"""Headers without effect in a request, so that deliveries and dead letters can be sent again unchanged."""


def is_text(name: str) -> bool:
    """Return whether a header's name is valid UTF-8: other bytes have been read as surrogates (PEP 383)."""
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def legible(name: str) -> str:
    """Return a header's name with bytes that are not UTF-8 as backslash escapes."""
    return name if is_text(name) else name.encode("utf-8", "backslashreplace").decode()
