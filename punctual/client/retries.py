"""Records whose processing failed, as requests for another attempt (records.md#retries), without any I/O."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, Protocol

from punctual.client.errors import InvalidOptionError
from punctual.client.requests import Request, topic_bytes
from punctual.client.times import span_ms
from punctual.client.user_headers import RawHeader
from punctual.contract import headers as names
from punctual.contract.retry import Backoff, names_attempt, parse_backoff, retry_id
from punctual.contract.times import parse_duration

#: Headers that each attempt sets again, or that belong to the previous delivery.
_ANEW: Final = names.DELIVERY | {names.TO, names.RETRY, names.MAX_ATTEMPTS, names.ATTEMPT, names.ERROR, names.REASON}
_ERROR_LETTERS: Final = 1_000


class Received(Protocol):
    """A record from a Kafka client: aiokafka's, or a Faust event's message."""

    @property
    def topic(self) -> str:
        """The topic that it was read from."""

    @property
    def partition(self) -> int:
        """Its partition."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def key(self) -> Any:
        """Its key's bytes."""

    @property
    def value(self) -> Any:
        """Its value's bytes."""

    @property
    def headers(self) -> Any:
        """Its headers: pairs, or a mapping."""


def exponential(
    base: timedelta | str = "1s",
    factor: float = 2,
    max: timedelta | str = "1h",  # noqa: A002 - the contract's word
    *,
    jitter: bool = True,
) -> Backoff:
    """Return a backoff: `base` after the first failed attempt, then `factor` times as long each time, up to `max`.

    With `jitter`, each wait is a random time between half the backoff and the whole backoff, so that records that
    failed together do not come back together. Spans are timedeltas, or text such as "500ms", "1s", "15m", "2h",
    "PT90S". Raises InvalidOptionError.
    """
    backoff = Backoff(_span(base, "base"), float(factor), _span(max, "max"), jitter)
    try:
        return parse_backoff(str(backoff))
    except ValueError as error:
        raise InvalidOptionError(f"This is not a backoff: {error}.") from error


def retry(
    record: Received,
    *,
    backoff: Backoff,
    max_attempts: int | None,
    to: object = None,
    error: BaseException | str | None = None,
) -> Request:
    """Return the request for another attempt at a record, in its own topic or in the topic `to`.

    Key, value and the user's headers stay. The request's id contains the record's topic, partition and offset, which
    identify it regardless of its headers, and the request goes to its home partition directly. Raises
    InvalidOptionError if `max_attempts` is not a number of attempts, InvalidRequestError for other invalid arguments.
    """
    check_most(max_attempts)
    pairs = _pairs(record.headers)
    where = topic_bytes(record.topic if to is None else to)
    source = f"{record.topic}-{record.partition}-{record.offset}"
    failed = record.attempts if isinstance(record, _Counted) else own_attempt(dict(reversed(pairs)), record.topic)
    id_ = retry_id(source, failed + 1, where.decode()).encode()
    ours: list[RawHeader] = [(names.ID, id_), (names.SOURCE, source.encode()), (names.TO, where)]
    ours.append((names.RETRY, str(backoff).encode()))
    if failed > 1:
        ours.append((names.ATTEMPT, b"%d" % failed))
    if max_attempts is not None:
        ours.append((names.MAX_ATTEMPTS, b"%d" % max_attempts))
    if error is not None:
        ours.append((names.ERROR, _sentence(error)))
    kept = (header for header in pairs if header[0] not in _ANEW)
    return Request(record.key, record.value, (*kept, *ours), id_)


def counted(record: Received, attempts: int) -> Received:
    """Return a record with `attempts` as its number of failed attempts, whatever its headers say."""
    return _Counted(record, attempts)


class _Counted:
    """A record with its number of failed attempts."""

    def __init__(self, record: Received, attempts: int) -> None:
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset
        self.key, self.value, self.headers = record.key, record.value, record.headers
        self.attempts = attempts


def check_most(max_attempts: int | None) -> None:
    """Raise InvalidOptionError if `max_attempts` is not a valid number of attempts, or None."""
    if max_attempts is not None and not is_count(max_attempts):
        raise InvalidOptionError(f"max_attempts={max_attempts!r} is not a number of attempts: give 1 or more, or None.")


def is_count(number: object) -> bool:
    """Return whether `number` is a valid number of attempts."""
    return isinstance(number, int) and number > 0


def own_attempt(headers: Mapping[str, bytes | None], topic: str) -> int:
    """Return the number of a record's attempt.

    A count that was copied with the headers of another message is ignored: the id of a delivery names its attempt and
    its topic.
    """
    attempt = attempt_of(headers)
    id_ = (headers.get(names.ID) or b"").decode(errors="replace")
    return attempt if names.DUE not in headers or names_attempt(id_, attempt, topic) else 1


def attempt_of(headers: Mapping[str, bytes | None]) -> int:
    """Return the attempt number in a record's headers, 1 without one."""
    text = headers.get(names.ATTEMPT) or b""
    return max(1, int(text)) if text.isdigit() and len(text) < 10 else 1  # noqa: PLR2004 - as many as the contract takes


def _pairs(headers: Mapping[str, bytes | None] | Iterable[RawHeader] | None) -> list[RawHeader]:
    if headers is None:
        return []
    return list(headers.items() if isinstance(headers, Mapping) else headers)


def _sentence(error: BaseException | str) -> bytes:
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}".removesuffix(": ")
    return text[:_ERROR_LETTERS].encode(errors="replace")


def _span(span: timedelta | str, name: str) -> int:
    if not isinstance(span, str):
        return span_ms(span, name)
    try:
        return parse_duration(span)
    except ValueError as error:
        raise InvalidOptionError(f"{name}: {error}.") from error


DEFAULT_BACKOFF: Final = exponential()
