"""What may be said about a message beside its destination and value."""

from datetime import datetime, timedelta
from typing import Literal, TypedDict

from punctual.client.user_headers import Headers
from punctual.client.values import Key

IfLate = Literal["deliver", "drop", "dead-letter"]
"""What happens to a message that can only be delivered later than its `max_late`."""


class DelayOptions(TypedDict, total=False):
    """The keyword arguments of `delay`; `at`, `after`, `every` or `cron` is needed, everything else may be left out.

    `at`: when it is due, a datetime with a zone; a fraction of a millisecond rounds up.
    `after`: how long after Kafka has the request it is due; alternative to `at`.
    `key`: the delivered record's key: bytes as they are, str as UTF-8.
    `headers`: the delivered record's headers, mapping or pairs; names beginning with `delay-` are reserved.
    `id`: 1 to 256 bytes of UTF-8; setting a pending id again replaces that message. Default:
    `<topic>-<partition>-<offset>` of the request.
    `to_partition`: the destination's partition. Default: Kafka's hash of the key; without a key it spreads.
    `to_cluster`: a destination cluster by its name in the worker's settings.
    `max_late`: how late a delivery still makes sense.
    `if_late`: what happens past `max_late`: "deliver" (the default), "drop" or "dead-letter".
    `dedupe`: how long after the delivery the same id with the same due time is dropped as a duplicate.
    `on_failure`: an http or https URL that gets the message back when it cannot be accepted or delivered.
    `no_later`: however often it is replaced or moved, it is due at the latest so long after its first request.
    `jitter`: it is due at a random moment within so long after `at` or `after`.
    `asked_at`: when this was really asked for, if it is sent later: the last order of an id wins by it.
    `every`: how long after each other occurrences of a recurring message are planned, the first at `at` if that is
    given; `cron`: or when, in 5 or 6 fields, in the time `zone` (UTC). Each is delivered as `<id>@<due time in ms>`.
    `until`: no occurrence is planned after it; `count`: so many in all.
    `misfire`: what becomes of occurrences that were missed: "catch-up-last" (the default), "catch-up" or "skip", and
    perhaps how late one may be: "catch-up PT1H".
    """

    at: datetime | None
    after: timedelta | None
    key: Key
    headers: Headers
    id: str | None
    to_partition: int | None
    to_cluster: str | None
    max_late: timedelta | None
    if_late: IfLate | None
    dedupe: timedelta | None
    on_failure: str | None
    no_later: timedelta | None
    jitter: timedelta | None
    asked_at: datetime | None
    every: timedelta | None
    cron: str | None
    zone: str | None
    until: datetime | None
    count: int | None
    misfire: str | None
