"""Makes a request of a dead letter again, unchanged or corrected."""

import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from app.serve.dead_letters.dead_letter import DeadLetter
from app.settings.topics import TopicSettings
from punctual.client.requests import Request
from punctual.contract import headers as names
from punctual.contract.dialects.dialects import NATIVE
from punctual.contract.home import home_partition
from punctual.contract.record import PlainRecord
from punctual.contract.request import Headers, Reason, Refusal
from punctual.contract.request import Request as Asked

#: The headers of a dead letter whose request was accepted: they are in the native format, whatever its dialect was.
_ACCEPTED: Final = frozenset({names.ID, names.TO, names.AT})


class IncompleteDeadLetter(ValueError):
    """The value of a dead letter was too large to be kept, so it cannot be sent again; the message is for users."""


class Correction(NamedTuple):
    """New values of headers, None to remove one, and a new value of the message if `replaces` is set."""

    headers: Mapping[str, bytes | None] = {}
    replaces: bool = False
    value: bytes | None = None


class Sending(NamedTuple):
    """A record to send to an input's partition, and its decoded request: None if that is refused.

    The request has no ID if its ID follows from the offset of the record.
    """

    topic: str
    partition: int
    request: Request
    asked: Asked | None = None

    def home(self, topics: TopicSettings, offset: int) -> int:
        """Return the home partition of the request's ID, which has its events, if its record gets this offset."""
        if self.request.id is not None:
            return self.partition
        return home_partition(self.id_at(topics, offset), topics.inputs, topics.partitions)

    def id_at(self, topics: TopicSettings, offset: int) -> str:
        """Return the ID of the request if its record gets this offset: an ID may be made from topic and offset."""
        own, stamp_ms = self.request, 0 if self.asked is None else self.asked.stamp_ms
        record = PlainRecord(self.topic, self.partition, offset, stamp_ms, own.key, own.value, list(own.headers))
        with contextlib.suppress(Refusal):
            return topics.dialect(self.topic).decode(record).id
        return f"{self.topic}-{self.partition}-{offset}"


def homes_of(records: Iterable[Sending], partitions: int) -> Collection[int]:
    """Return the partitions that get the events of records; all partitions if an ID follows from an offset."""
    homes = {None if one.request.id is None else one.partition for one in records}
    return range(partitions) if None in homes else {home for home in homes if home is not None}


def resend(topics: TopicSettings, one: DeadLetter, now_ms: int, correction: Correction | None = None) -> Sending:
    """Return the request of a dead letter, with the input topic that it came from.

    A request that was accepted goes to the requests topic, because its headers are in the native format; if it came by
    a native input with a namespace, it goes there. Key, value and headers stay byte for byte except for corrections.
    Raises IncompleteDeadLetter.
    """
    correction = correction or Correction()
    if one.incomplete and not correction.replaces:
        sentence = f"dead letter {one.place} was too large to keep its value"
        raise IncompleteDeadLetter(f"{sentence}. Give a value, or send the original again")
    own = [(name, value) for name, value in one.headers if name not in names.DEAD_LETTER]
    headers = _corrected(own, correction.headers)
    if one.reason == Reason.UNKNOWN_TOPIC:  # a worker refuses it at once if the topic still does not exist
        headers = [*headers, (names.REASON, one.reason.encode())]
    value = correction.value if correction.replaces else one.value
    source = one.source.rpartition("-")[0].rpartition("-")[0]
    accepted = {name for name, _ in one.headers} >= _ACCEPTED
    # A team's own input enforces the team's limits, if it takes the native format.
    stays = not accepted or (topics.namespaces.of_topic(source) and topics.inputs.get(source) == NATIVE.name)
    topic = source if source in topics.inputs and stays else topics.requests
    record = PlainRecord(topic, one.partition, 0, now_ms, one.key, value, headers)
    asked: Asked | None = None
    with contextlib.suppress(Refusal):  # the worker will refuse it again
        asked = topics.dialect(topic).decode(record)
    anywhere = Sending(topic, one.partition, Request(one.key, value, tuple(headers), None), asked)
    id_ = anywhere.id_at(topics, 0)
    if asked is None or id_ != anywhere.id_at(topics, 1):  # it has no ID of its own: the offset makes one
        return anywhere
    partition = home_partition(id_, topics.inputs, topics.partitions)
    return anywhere._replace(partition=partition, request=Request(one.key, value, tuple(headers), id_.encode()))


def _corrected(headers: Headers, changes: Mapping[str, bytes | None]) -> Headers:
    """Return headers with changed values at the position of the first of that name; new headers come last."""
    corrected, left = Headers(), dict(changes)
    for name, value in headers:
        if name not in changes:
            corrected.append((name, value))
        elif name in left:
            corrected.append((name, left.pop(name)))
    return [(name, value) for name, value in (*corrected, *left.items()) if name not in changes or value is not None]
