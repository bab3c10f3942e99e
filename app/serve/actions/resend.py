"""Makes a request of a dead letter again, unchanged or corrected."""

import contextlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from app.serve.dead_letters.dead_letter import DeadLetter
from app.settings.topics import TopicSettings
from punctual.client.requests import Request
from punctual.contract import headers as names
from punctual.contract.dialects.dialects import NATIVE
from punctual.contract.home import home_partition
from punctual.contract.record import PlainRecord
from punctual.contract.request import Reason, Refusal
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


class Resend(NamedTuple):
    """The record that sends a dead letter again, its partition, and its decoded request: None if that is refused."""

    topic: str
    partition: int
    request: Request
    asked: Asked | None = None

    def home(self, topics: TopicSettings, offset: int) -> int:
        """Return the home partition of the request's ID, which has its events, if its record gets this offset."""
        return home_partition(self.id_at(topics, offset), topics.inputs, topics.partitions)

    def id_at(self, topics: TopicSettings, offset: int) -> str:
        """Return the ID of the request if its record gets this offset: an ID may be made from topic and offset."""
        request = self.request
        stamp_ms = 0 if self.asked is None else self.asked.stamp_ms
        record = PlainRecord(
            self.topic, self.partition, offset, stamp_ms, request.key, request.value, list(request.headers)
        )
        with contextlib.suppress(Refusal):
            return topics.dialect(self.topic).decode(record).id
        return f"{self.topic}-{self.partition}-{offset}"


def resend(topics: TopicSettings, one: DeadLetter, now_ms: int, correction: Correction | None = None) -> Resend:
    """Return the request of a dead letter, with the input topic that it came from.

    A request that was accepted goes to the requests topic, because its headers are in the native format; if it came by
    a native input with a namespace, it goes there. Key, value and headers stay byte for byte except for corrections.
    Raises IncompleteDeadLetter.
    """
    correction = correction or Correction()
    if one.incomplete and not correction.replaces:
        raise IncompleteDeadLetter(
            f"dead letter {one.place} was too large to keep its value. Give a value, or send the original again"
        )
    headers = _corrected(one.own_headers, correction.headers)
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
    anywhere = Resend(topic, one.partition, Request(one.key, value, tuple(headers), None), asked)
    id_ = anywhere.id_at(topics, 0)
    if asked is None or id_ != anywhere.id_at(topics, 1):  # it has no ID of its own: the offset makes one
        return anywhere
    partition = home_partition(id_, topics.inputs, topics.partitions)
    return anywhere._replace(partition=partition, request=Request(one.key, value, tuple(headers), id_.encode()))


def _corrected(
    headers: list[tuple[str, bytes | None]], changes: Mapping[str, bytes | None]
) -> list[tuple[str, bytes | None]]:
    """Return headers with changed values at the position of the first of that name; new headers come last."""
    found, said = list[tuple[str, bytes | None]](), set[str]()
    for name, value in headers:
        if name not in changes:
            found.append((name, value))
        elif name not in said:
            said.add(name)
            if changes[name] is not None:
                found.append((name, changes[name]))
    return found + [(name, value) for name, value in changes.items() if name not in said and value is not None]
