"""Requests and commands as Kafka records (records.md#requests), without any I/O."""

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from punctual.client.errors import (
    InvalidDestinationError,
    InvalidDueTimeError,
    InvalidHeaderError,
    InvalidIdError,
    InvalidOptionError,
)
from punctual.client.options import IfLate
from punctual.client.series import series_headers
from punctual.client.times import due_after_ms, epoch_ms, span_ms
from punctual.client.user_headers import Headers, RawHeader, user_headers
from punctual.client.values import Key, key_bytes, value_bytes
from punctual.contract import headers as names
from punctual.contract.destination import shown
from punctual.contract.native import NOTHING
from punctual.contract.request import ID_BYTES, TOPIC_NAME
from punctual.contract.times import write_time
from punctual.encryption import ALGORITHM_HEADER, KEY_ID_HEADER, Keyring

Operation = Literal["cancel", "reschedule", "deliver-now", "pause", "resume"]

_URL: Final = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class Request:
    """One record for the requests topic, complete except for its partition."""

    key: bytes | None
    value: bytes | None
    headers: tuple[RawHeader, ...]
    id: bytes | None


def schedule(  # noqa: PLR0913 - one argument per header of the contract
    to: object,
    value: object,
    *,
    at: datetime | None = None,
    after: timedelta | None = None,
    key: Key = None,
    headers: Headers = (),
    id: str | None = None,  # noqa: A002 - the contract's word
    to_partition: int | None = None,
    to_cluster: str | None = None,
    max_late: timedelta | None = None,
    if_late: IfLate | None = None,
    dedupe: timedelta | None = None,
    on_failure: str | None = None,
    no_later: timedelta | None = None,
    jitter: timedelta | None = None,
    asked_at: datetime | None = None,
    every: timedelta | None = None,
    cron: str | None = None,
    zone: str | None = None,
    until: datetime | None = None,
    count: int | None = None,
    misfire: str | None = None,
) -> Request:
    """Return the record that schedules a message; options.DelayOptions describes each argument.

    Raises one of the InvalidRequestErrors.
    """
    raw_id = None if id is None else id_bytes(id)
    series = series_headers(every, cron, zone, until, count, misfire)
    first = [] if series and at is None and after is None else [_due(at, after)]
    ours = [(names.TO, topic_bytes(to)), *first, *series, (names.ID, raw_id)]
    ours += _destination(to_partition, to_cluster)
    ours += _lateness(max_late, if_late)
    ours += [
        (names.DEDUPE, _span(dedupe, "dedupe")),
        (names.ON_FAILURE, None if on_failure is None else _url(on_failure)),
        (names.NO_LATER, _span(no_later, "no_later")),
        (names.JITTER, _span(jitter, "jitter")),
        (names.ASKED_AT, None if asked_at is None else _digits(epoch_ms(asked_at, "asked_at"))),
    ]
    present = [header for header in ours if header[1] is not None]
    return Request(key_bytes(key), value_bytes(value), (*present, *user_headers(headers)), raw_id)


def encrypted(request: Request, keyring: Keyring) -> Request:
    """Return a request whose value is encrypted for its destination and key; null stays null.

    Raises InvalidHeaderError if its headers say that it is encrypted already.
    """
    for name, _ in request.headers:
        if name in (ALGORITHM_HEADER, KEY_ID_HEADER):
            raise InvalidHeaderError(
                f"The header {name} says that the value is encrypted, and this client encrypts: leave the header out, "
                "or send encrypted values through a client without encryption."
            )
    if request.value is None:
        return request
    to = dict(request.headers)[names.TO] or b""
    value, key_header = keyring.encrypt(request.value, to=to.decode(), key=request.key)
    return replace(request, value=value, headers=(*request.headers, *key_header))


def command(
    operation: Operation,
    id: str,  # noqa: A002 - the contract's word
    *,
    at: datetime | None = None,
    after: timedelta | None = None,
    jitter: timedelta | None = None,
    if_due: datetime | None = None,
    asked_at: datetime | None = None,
) -> Request:
    """Return the record of a command on a pending message; `reschedule` needs `at` or `after`.

    The id is also the key, so that commands for one id keep their order with any partitioner.
    """
    raw_id = id_bytes(id)
    headers: list[RawHeader] = [(names.OP, operation.encode()), (names.ID, raw_id)]
    if operation == "reschedule":
        headers.append(_due(at, after))
        if jitter is not None:
            headers.append((names.JITTER, _digits(span_ms(jitter, "jitter"))))
    if if_due is not None:
        headers.append((names.IF_DUE, _digits(epoch_ms(if_due, "if_due"))))
    if asked_at is not None:
        headers.append((names.ASKED_AT, _digits(epoch_ms(asked_at, "asked_at"))))
    return Request(raw_id, None, tuple(headers), raw_id)


def _due(at: datetime | None, after: timedelta | None) -> RawHeader:
    if at is not None and after is not None:
        raise InvalidDueTimeError("Both at and after are given, and they may differ: give one of them.")
    if at is not None:
        return names.AT, write_time(epoch_ms(at)).encode()
    if after is not None:
        return names.AFTER, _digits(due_after_ms(after))
    raise InvalidDueTimeError("No due time: give at=datetime.now(timezone.utc) + ..., or after=timedelta(...).")


def topic_bytes(to: object) -> bytes:
    """Return the name of a destination topic, or of a Faust topic. Raises InvalidDestinationError."""
    # A Faust topic is recognized by its method, so that Faust is not imported for callers that do not use it.
    name = to.get_topic_name() if hasattr(to, "get_topic_name") else to
    if isinstance(name, str) and _URL.fullmatch(name):
        return name.encode()
    if not isinstance(name, str) or not TOPIC_NAME.fullmatch(name) or name in {".", ".."}:
        raise InvalidDestinationError(
            f"{_in_words(name)} is neither a topic nor an https URL: Kafka allows 1 to 249 of the characters a-z A-Z "
            "0-9 . _ -"
        )
    return name.encode()


def _destination(partition: object, cluster: object) -> list[RawHeader]:
    headers: list[RawHeader] = []
    if partition is not None:
        if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
            raise InvalidDestinationError(
                f"to_partition={partition!r} is not a partition: give 0 or more, or leave it out to use the key."
            )
        headers.append((names.TO_PARTITION, _digits(partition)))
    if cluster is not None:
        if not isinstance(cluster, str) or not cluster:
            raise InvalidDestinationError(
                f"to_cluster={cluster!r} is not a cluster name: give a name from the worker's DELAY_CLUSTERS."
            )
        headers.append((names.TO_CLUSTER, cluster.encode()))
    return headers


def _lateness(max_late: timedelta | None, if_late: IfLate | None) -> list[RawHeader]:
    headers: list[RawHeader] = []
    if max_late is not None:
        headers.append((names.MAX_LATE, _digits(span_ms(max_late, "max_late"))))
    if if_late is not None:
        if if_late not in get_args(IfLate):
            raise InvalidOptionError(f"if_late={if_late!r} is not valid: give one of {', '.join(get_args(IfLate))}.")
        if max_late is not None:
            if not max_late and if_late != "deliver":
                raise InvalidOptionError(f"max_late={max_late!r} beside if_late={if_late!r} {NOTHING}.")
            headers.append((names.IF_LATE, if_late.encode()))
        elif if_late != "deliver":
            raise InvalidOptionError(
                f"if_late={if_late!r} has no effect without a limit: give max_late=timedelta(...) with it."
            )
    return headers


def _span(span: timedelta | None, option: str) -> bytes | None:
    return None if span is None else _digits(span_ms(span, option))


def _url(url: object) -> bytes:
    if not isinstance(url, str) or not _URL.fullmatch(url):
        raise InvalidOptionError(f"on_failure={_in_words(url)} is not an http or https URL.")
    return url.encode()


def _in_words(to: object) -> str:
    """Return a destination for an error message, without the secret parts of a URL."""
    return repr(shown(to) if isinstance(to, str) else to)


def _digits(number: int) -> bytes:
    return b"%d" % number


def id_bytes(message_id: str) -> bytes:
    """Return the id's bytes. Raises InvalidIdError if it is no text, empty, over 256 bytes or not UTF-8."""
    if not isinstance(message_id, str):
        raise InvalidIdError(f"id={message_id!r} is not a str: write id=str(...).")
    try:
        raw = message_id.encode()
    except UnicodeEncodeError as error:
        raise InvalidIdError(
            f"id={message_id!r} is not valid Unicode ({error.reason}): give an id without lone surrogates."
        ) from error
    if not raw:
        raise InvalidIdError("id is empty: give 1 to 256 bytes, or leave id out to get an automatic one.")
    if len(raw) > ID_BYTES:
        raise InvalidIdError(f"id has {len(raw)} bytes, more than {ID_BYTES}: shorten it, or use a hash of it.")
    return raw
