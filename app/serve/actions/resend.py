"""A dead letter becomes a request again: as it was, or corrected."""

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

#: What a dead letter says that was accepted once: it speaks of itself in the native format, whatever it was asked in.
_ACCEPTED: Final = frozenset({names.ID, names.TO, names.AT})


class IncompleteDeadLetter(ValueError):
    """A dead letter that was too large to be kept whole, so that there is nothing to send again: a sentence."""


class Correction(NamedTuple):
    """What is put right: headers, those that are None go; the value, if `replaces` says so."""

    headers: Mapping[str, bytes | None] = {}
    replaces: bool = False
    value: bytes | None = None


class Resend(NamedTuple):
    """The record that sends a dead letter again, where it belongs, and what it asks for: None if that is refused."""

    topic: str
    partition: int
    request: Request
    asked: Asked | None = None

    def home(self, topics: TopicSettings, offset: int) -> int:
        """Return the partition in which its id is at home, whose events tell of it, once it is at an offset."""
        return home_partition(self.id_at(topics, offset), topics.inputs, topics.partitions)

    def id_at(self, topics: TopicSettings, offset: int) -> str:
        """Return the id that it has at an offset of its partition: an id may be made of the record's place."""
        request = self.request
        stamp_ms = 0 if self.asked is None else self.asked.stamp_ms
        record = PlainRecord(
            self.topic, self.partition, offset, stamp_ms, request.key, request.value, list(request.headers)
        )
        with contextlib.suppress(Refusal):
            return topics.dialect(self.topic).decode(record).id
        return f"{self.topic}-{self.partition}-{offset}"


def resend(topics: TopicSettings, one: DeadLetter, now_ms: int, correction: Correction | None = None) -> Resend:
    """Return the request that a dead letter was, on the input that it came from.

    What was accepted before goes to the requests topic: its headers say in the native format what was asked for. What
    came by a native input with a namespace goes there again. Key, value and headers stay byte for byte but for what is
    put right. Raises IncompleteDeadLetter.
    """
    correction = correction or Correction()
    if one.incomplete and not correction.replaces:
        raise IncompleteDeadLetter(
            f"dead letter {one.place} was too large to keep its value. Give a value, or send the original again"
        )
    headers = _corrected(one.own_headers, correction.headers)
    if one.reason == Reason.UNKNOWN_TOPIC:  # a worker refuses it at once then, if the topic is still not there
        headers = [*headers, (names.REASON, one.reason.encode())]
    value = correction.value if correction.replaces else one.value
    source = one.source.rpartition("-")[0].rpartition("-")[0]
    accepted = {name for name, _ in one.headers} >= _ACCEPTED
    # A team's own input holds it to what the team may ask for, as long as it takes the native format.
    stays = not accepted or (topics.namespaces.of_topic(source) and topics.inputs.get(source) == NATIVE.name)
    topic = source if source in topics.inputs and stays else topics.requests
    record = PlainRecord(topic, one.partition, 0, now_ms, one.key, value, headers)
    asked: Asked | None = None
    with contextlib.suppress(Refusal):  # it will be refused again, where it is
        asked = topics.dialect(topic).decode(record)
    anywhere = Resend(topic, one.partition, Request(one.key, value, tuple(headers), None), asked)
    id_ = anywhere.id_at(topics, 0)
    if asked is None or id_ != anywhere.id_at(topics, 1):  # it has none of its own: another offset gives another
        return anywhere
    partition = home_partition(id_, topics.inputs, topics.partitions)
    return anywhere._replace(partition=partition, request=Request(one.key, value, tuple(headers), id_.encode()))


def _corrected(
    headers: list[tuple[str, bytes | None]], changes: Mapping[str, bytes | None]
) -> list[tuple[str, bytes | None]]:
    """Return headers with other values for some, where the first of the name was; new ones come last."""
    found, said = list[tuple[str, bytes | None]](), set[str]()
    for name, value in headers:
        if name not in changes:
            found.append((name, value))
        elif name not in said:
            said.add(name)
            if changes[name] is not None:
                found.append((name, changes[name]))
    return found + [(name, value) for name, value in changes.items() if name not in said and value is not None]
