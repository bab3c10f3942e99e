"""Checks messages as a worker would later, and completes them: IDs, absolute due times, deduplication."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

import msgspec

from app.engine.ingest.policy import Policy
from app.serve.access.caller import Caller
from app.serve.messages.json_input import check_headers
from app.serve.messages.receipts import Origin
from app.serve.web.problem import Fault, Problem, pointer
from app.settings.settings import Settings
from punctual.contract import headers as names
from punctual.contract.dialects.dialects import Dialect, dialect_of
from punctual.contract.home import home_partition, key_partition
from punctual.contract.record import PlainRecord
from punctual.contract.request import Headers, Reason, Refusal, Request
from punctual.contract.times import write_time


class Submission(msgspec.Struct, frozen=True, array_like=True):
    """A complete record for an input topic: with `delay-id`, `delay-dedupe`, `delay-at` and `delay-asked-at`.

    `partition` follows from `id`, so that all records for an ID go to one partition. It may be None in the spool of an
    earlier version.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    id: str


@dataclass(slots=True)
class Draft:
    """A record for an input topic, before it is checked."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    #: The types of key and value in the record form.
    key_type: str | None = None
    value_type: str | None = None
    #: The requested partition.
    partition: int | None = None
    #: The JSON pointer of each native header's value, by name.
    places: Mapping[str, str] = field(default_factory=dict)
    #: The JSON pointer for headers that are missing.
    otherwise: str = pointer()

    def place(self, name: str) -> str:
        """Return the JSON pointer of a native header's value, or of the place where it is missing."""
        return self.places.get(name, self.otherwise)

    @property
    def names(self) -> set[str]:
        """The names of the headers."""
        return {name for name, _ in self.headers}


#: The headers that make a native request's due time depend on its arrival.
_RELATIVE: Final = names.RECURRENCE | {names.AFTER}
#: The dialect with this name has a field with this name for a relative due time.
_COUNTDOWN: Final = "countdown"
_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
#: The headers that a refusal is about if its sentence names none.
_ABOUT: Final[Mapping[Reason, tuple[str, ...]]] = {
    Reason.MISSING_DESTINATION: (names.TO,),
    Reason.UNKNOWN_TOPIC: (names.TO,),
    Reason.NOT_ALLOWED: (names.TO,),
    Reason.TOO_MANY_DESTINATIONS: (names.TO,),
    Reason.UNKNOWN_CLUSTER: (names.TO_CLUSTER,),
    Reason.MISSING_DUE: (names.AT,),
    Reason.TOO_FAR: (names.AT, names.AFTER, names.EVERY, names.CRON),
    Reason.BAD_ID: (names.ID,),
}
#: Header names in sentences; a name that is the beginning of another comes after it.
_NAME: Final = re.compile("|".join(sorted(names.REQUEST, key=len, reverse=True)))
#: The maximum IDs that are made until one has the right home partition; without a namespace the first one has.
_TRIES: Final = 1_000
#: The number of a message in its request has at most this many bits.
_BITS: Final = 20
_DIGITS: Final = 18
#: An ID, and the header that marks the ID of a delivery.
_ID: Final = (names.ID, names.DUE)


class Accepted(NamedTuple):
    """A message for the intake, and the request that a worker will read from it."""

    submission: Submission
    asked: Request
    draft: Draft


class Acceptance:
    """Refuses messages that a worker would refuse, as far as the settings can tell."""

    def __init__(self, settings: Settings, *, completes: bool = True) -> None:
        """Apply the topics, policies and retention in `settings`.

        With `completes`, messages are independent of when Kafka gets them: due times become absolute, and a message
        that is sent twice is delivered once.
        """
        self._completes = completes
        self._topics, self._policy, self._inputs = settings.topics, Policy(settings), settings.topics.inputs
        #: For each input, the dialect with its policies and namespace, and without them.
        self._spoken = {
            topic: (settings.topics.dialect(topic), dialect_of(text)) for topic, text in self._inputs.items()
        }
        self._dedupe_ms = settings.retention.gateway_dedupe_ms

    def read(self, draft: Draft, caller: Caller, origin: Origin, number: int) -> Accepted:
        """Return the accepted message of a draft; `number` is its number in its request. Raises Problem."""
        try:
            return self._read(draft, caller, origin, number)
        except Refusal as refusal:
            raise problem_of(refusal, draft) from refusal

    def _read(self, draft: Draft, caller: Caller, origin: Origin, number: int) -> Accepted:
        topic, now_ms = draft.topic, origin.moment_ms
        dialect, plain = self._spoken[topic]
        caller.check_size(len(draft.key or b"") + len(draft.value or b""))
        if names.PARKED in draft.names:
            raise Refusal(Reason.MALFORMED, f"{names.PARKED} is only for the cold tier. Leave it out.")
        headers = _asked_at(draft.headers, now_ms, add=self._completes)
        headers = self._named(headers, draft, dialect, caller, partial(self._id, draft, origin, number))
        record = PlainRecord(topic, 0, 0, now_ms, draft.key, draft.value, headers)
        if self._completes:
            record = absolute(record, plain.decode, plain.name)
        request = dialect.decode(record)
        if caller.namespaces is not None and self._topics.namespaces.of_id(request.id) not in caller.namespaces:
            # The ID of a retry follows from its earlier ID: the full ID must be written, and be within the namespace.
            full = caller.full_id(request.id, self._topics.namespaces)
            record.headers = [*_without(record.headers, *_ID), (names.ID, full.encode())]
            request = dialect.decode(record)
        self._policy.check(request, now_ms)
        if request.op == "schedule":
            caller.check_destinations(request.to, request.on_failure)
        complete = list(record.headers)
        if self._completes and _may_dedupe(request, complete):
            request.dedupe_ms = self._dedupe_ms
            complete.append((names.DEDUPE, b"%d" % request.dedupe_ms))
        check_headers(complete)
        home = home_partition(request.id, self._inputs, self._topics.partitions)
        submission = Submission(topic, home, record.key, record.value, complete, request.id)
        return Accepted(submission, request, draft)

    def _named(
        self, headers: Headers, draft: Draft, dialect: Dialect, caller: Caller, new_id: Callable[[str], str]
    ) -> Headers:
        """Return headers with a full ID; `new_id` makes one in a namespace. Raises Problem or Refusal."""
        namespace = self._namespace(draft.topic, caller, own_ids=dialect.words.id != names.ID)
        if dialect.words.id != names.ID:  # the dialect has its own IDs
            return headers
        values = dict(headers)
        follows = names.RETRY in values and names.SOURCE in values
        if (dialect.name != "native" or names.RETRY in values) and names.OP not in values and names.DUE in values:
            # It passes on a delivery, whose ID is not its own (punctual/contract/dialects/native_headers.py).
            headers = headers if follows else _without(headers, *_ID)
            values.pop(names.ID, None)
        if values.get(names.ID):
            own = None if self._topics.namespaces.of_topic(draft.topic) else caller
            return [(name, self._full(namespace, own, value) if name == names.ID else value) for name, value in headers]
        if values.get(names.OP, b"schedule") != b"schedule" or names.ID in values:
            return headers
        if follows:
            return headers  # its ID follows from its earlier ID
        return [*headers, (names.ID, new_id(namespace).encode())]

    def _namespace(self, topic: str, caller: Caller, *, own_ids: bool) -> str:
        """Return the namespace of a caller's IDs on an input. Raises Problem if the input is in another namespace."""
        of_input = self._topics.namespaces.of_topic(topic)
        if caller.namespaces is not None and of_input not in caller.namespaces and (of_input or own_ids):
            within = ", ".join(caller.namespaces)
            sentence = f"{caller.name} is restricted to the namespace {within}; the input {topic} is not in it."
            raise Problem("forbidden", sentence)
        return of_input or caller.namespace

    def _full(self, namespace: str, caller: Caller | None, value: bytes | None) -> bytes | None:
        """Return the full name of an ID in a namespace, or of the ID that `caller` means if there is one."""
        if value is None:
            return None
        try:
            id_, namespaces = value.decode(), self._topics.namespaces
            full = namespaces.full(namespace, id_) if caller is None else caller.full_id(id_, namespaces)
            return full.encode()
        except UnicodeDecodeError:
            return value  # it is refused when it is decoded

    def _id(self, draft: Draft, origin: Origin, number: int, namespace: str) -> str:
        """Return a new ID with its home in the draft's partition, or its key's. Raises Problem."""
        topics, partition = self._topics, draft.partition
        if partition is not None and partition >= topics.partitions:
            sentence = f"partition_id is {partition}. Partitions are 0 to {topics.partitions - 1}."
            raise Problem("malformed", sentence, [Fault("#/partition_id", sentence)])
        wanted = partition
        if wanted is None and draft.key is not None:
            wanted = key_partition(draft.key, topics.partitions)
        for attempt in range(_TRIES):
            full = topics.namespaces.full(namespace, origin.id(attempt << _BITS | number, draft.key))
            if wanted is None or home_partition(full, self._inputs, topics.partitions) == wanted:
                break
        return full


def problem_of(refusal: Refusal, draft: Draft) -> Problem:
    """Return the problem for a refusal, with the JSON pointers of the headers that it is about."""
    in_sentence = list(dict.fromkeys(_NAME.findall(refusal.sentence)))
    about = in_sentence or list(_ABOUT.get(refusal.reason, ()))
    present = [name for name in about if name in draft.names]
    about = present or (about if in_sentence else about[:1])
    faults = [Fault(place, refusal.sentence) for place in dict.fromkeys(map(draft.place, about))]
    return Problem(refusal.reason.value, refusal.sentence, faults)


def _asked_at(headers: Headers, now_ms: int, *, add: bool) -> Headers:
    """Return headers with `delay-asked-at`: the current time if it is in the future, or, with `add`, missing."""
    stamps = [value or b"" for name, value in headers if name == names.ASKED_AT]
    if not stamps:
        return [*headers, (names.ASKED_AT, b"%d" % now_ms)] if add else headers
    if len(stamps) == 1 and stamps[0].isdigit() and int(stamps[0][:_DIGITS]) > now_ms:
        return [(name, b"%d" % now_ms if name == names.ASKED_AT else value) for name, value in headers]
    return headers


def _may_dedupe(request: Request, headers: Headers) -> bool:
    """Return whether a message gets the default deduplication time: it can be recognised, and has none of its own."""
    is_retry = any(name == names.RETRY for name, _ in headers)
    return request.op == "schedule" and request.dedupe_ms is None and request.recurrence is None and not is_retry


def absolute(record: PlainRecord, decode: Callable[[PlainRecord], Request], dialect: str) -> PlainRecord:
    """Return a record whose due time does not depend on its arrival in Kafka; `decode` reads it without jitter.

    A retry is not changed, because its ID and backoff depend on its own headers. Raises Refusal.
    """
    header_names = {name for name, _ in record.headers}
    native = dialect == "native"
    if not header_names.isdisjoint((names.AT, names.RETRY)) or (native and header_names.isdisjoint(_RELATIVE)):
        return record
    plain = replace(record, headers=_without(record.headers, names.JITTER))
    request = decode(plain)
    if request.op not in ("schedule", "reschedule"):
        return record
    due_ms = request.due_ms if request.recurrence is None else request.planned_ms
    if not native and request.recurrence is None:
        later = replace(plain, timestamp=record.timestamp + 1)
        if decode(later).due_ms == due_ms:  # the due time does not depend on the arrival
            return record
    value = record.value
    if dialect == _COUNTDOWN and request.op == "schedule":
        body = _object.decode(value or b"{}")
        body.pop(_COUNTDOWN, None)
        value = msgspec.json.encode(body)
    headers = [*_without(record.headers, names.AFTER), (names.AT, write_time(due_ms).encode())]
    return replace(record, value=value, headers=headers)


def _without(headers: Sequence[tuple[str, bytes | None]], *left_out: str) -> Headers:
    return [header for header in headers if header[0] not in left_out]
