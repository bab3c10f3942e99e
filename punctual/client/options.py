"""The options of a delayed message, without its destination and value."""

from datetime import datetime, timedelta
from typing import Literal, TypedDict

from punctual.client.user_headers import Headers
from punctual.client.values import Key

IfLate = Literal["deliver", "drop", "dead-letter"]
"""What happens to a message whose lateness is above its `max_late`."""


class DelayOptions(TypedDict, total=False):
    """The keyword arguments of `delay`. Pass `at`, `after`, `every` or `cron`; all others are optional.

    Destination and content:
    `key`: the key of the delivered record; bytes as they are, str as UTF-8.
    `headers`: the headers of the delivered record, a mapping or pairs; names that begin with `delay-` are reserved.
    `to_partition`: the partition of the destination. Default: Kafka's hash of the key; any partition without a key.
    `to_cluster`: the destination cluster, by its name in the worker's settings.
    `id`: 1 to 256 bytes of UTF-8. A request with the ID of a pending message replaces that message. Default:
    `<topic>-<partition>-<offset>` of the request.

    Due time:
    `at`: when the message is due, a datetime with a time zone; fractions of a millisecond are rounded up.
    `after`: alternative to `at`: how long after the request's Kafka timestamp the message is due.
    `jitter`: the message is due at a random moment between the due time and this much later.
    `no_later`: the maximum time between the first request of an ID and the due time, however often it is replaced.
    `max_late`: the maximum lateness at which a delivery still makes sense.
    `if_late`: what happens beyond `max_late`: "deliver" (the default), "drop" or "dead-letter".
    `asked_at`: when the request was made, if you send it later; the latest request or command of an ID wins.

    After the delivery:
    `dedupe`: how long a request with the same ID and due time is dropped as a duplicate after the delivery.
    `on_failure`: an http or https URL that receives the message if it cannot be accepted or delivered.

    Recurring messages:
    `every`: the time between two occurrences; the first one is due at `at`, if you pass it.
    `cron`: alternative to `every`: a cron expression of 5 or 6 fields, in the time zone `zone` (default UTC).
    `until`: the last moment at which an occurrence may be due.
    `count`: the maximum number of occurrences.
    `misfire`: what happens to occurrences that were missed: "catch-up-last" (default), "catch-up" or "skip"; add the
    maximum lateness of an occurrence after a blank: "catch-up PT1H".
    Each occurrence is delivered with the ID `<id>@<due time in epoch ms>`.
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
