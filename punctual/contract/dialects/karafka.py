"""The dialect of the `schedule_*` headers: the record's key is the id, and `schedule_source_type` is the operation.

Deliveries have all headers of the record, followed by its topic, partition and offset.
"""

import re
from typing import Final

from punctual.contract.dialects import native_headers
from punctual.contract.dialects.fields import fields, parsed
from punctual.contract.dialects.native_headers import Own
from punctual.contract.record import Record
from punctual.contract.request import Reason, Refusal, Request
from punctual.contract.times import parse_seconds
from punctual.contract.words import Words

VERSION: Final = "schedule_schema_version"
TYPE: Final = "schedule_source_type"
EPOCH: Final = "schedule_target_epoch"
TOPIC: Final = "schedule_target_topic"
KEY: Final = "schedule_target_key"
PARTITION: Final = "schedule_target_partition"
PARTITION_KEY: Final = "schedule_target_partition_key"
SOURCE_TOPIC: Final = "schedule_source_topic"
SOURCE_PARTITION: Final = "schedule_source_partition"
SOURCE_OFFSET: Final = "schedule_source_offset"
SOURCE_KEY: Final = "schedule_source_key"

WORDS: Final = Words(id="the record's key", to=TOPIC, due=EPOCH, partition=PARTITION)
_PREFIX = "schedule_"
#: Versions are compared by their major number: 1, 1.0 and 1.0.0 are equal.
_SCHEMA = re.compile(r"(\d{1,9})(?:\.\d{1,9}){0,2}", re.ASCII)
_MAJOR = 1
#: The scheduler itself writes a tombstone after it has sent a message, so a tombstone cancels.
_CANCELS = ("cancel", "tombstone")


def decode(record: Record) -> Request:
    """Return the request in a record. Raises Refusal."""
    native, users = native_headers.read(record)
    own = Own(id=native_headers.key_id(record))
    given = fields(users, _PREFIX, EPOCH)
    if native_headers.is_command(native) and TYPE not in given:
        own.due_ms, own.to = _due_ms(given), given.get(TOPIC)
        return native_headers.request(record, WORDS, native, own, None, None, [])
    _check_version(given)
    kind = given.get(TYPE, "")
    if kind in _CANCELS:
        own.cancels = f"{TYPE} is {kind}"
        return native_headers.request(record, WORDS, native, own, None, None, [])
    if kind != "schedule":
        can = ", ".join(("schedule", *_CANCELS))
        raise Refusal(Reason.MALFORMED, f"{TYPE} is {kind[:64]!r}. It must be one of {can}.")
    own.to, own.due_ms, own.partition = given.get(TOPIC) or None, _due_ms(given), _partition(given)
    key = given[KEY].encode() if KEY in given else None
    place: dict[str, bytes | None] = {
        SOURCE_TOPIC: record.topic.encode(),
        SOURCE_PARTITION: b"%d" % record.partition,
        SOURCE_OFFSET: b"%d" % record.offset,
        SOURCE_KEY: record.key,
    }
    # A record that is scheduled again already has these headers.
    headers = [*(header for header in users if header[0] not in place), *place.items()]
    return native_headers.request(record, WORDS, native, own, key, record.value, headers)


def _check_version(given: dict[str, str]) -> None:
    version = given.get(VERSION, "")
    match = _SCHEMA.fullmatch(version)
    if match is None or int(match[1]) != _MAJOR:
        sentence = f"{VERSION} is {version[:64]!r}. Only versions {_MAJOR}.x.x are supported."
        raise Refusal(Reason.MALFORMED, sentence)


def _due_ms(given: dict[str, str]) -> int | None:
    return parsed(EPOCH, given[EPOCH], parse_seconds) if EPOCH in given else None


def _partition(given: dict[str, str]) -> int | None:
    """Return the partition to deliver to; a partition key is valid only if it is the message's own key."""
    if PARTITION_KEY in given and given[PARTITION_KEY] != given.get(KEY):
        sentence = f"{PARTITION_KEY} is not {KEY}. Only that key can choose the partition."
        raise Refusal(Reason.MALFORMED, f"{sentence} Name the partition in {PARTITION} instead.")
    text = given.get(PARTITION)
    if text is None:
        return None
    if PARTITION_KEY in given:
        raise Refusal(Reason.MALFORMED, f"{PARTITION} and {PARTITION_KEY} are both given. Send one of them.")
    if not (text.isascii() and text.isdigit()) or len(text) > len("2147483647"):
        raise Refusal(Reason.MALFORMED, f"{PARTITION} is {text[:64]!r}. It must be a whole number in ASCII digits.")
    return int(text)
