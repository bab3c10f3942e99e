"""Records whose processing failed, as requests for another attempt (records.md#retries), without any I/O."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, Protocol

from punctual.client.errors import InvalidOptionError
from punctual.client.requests import Request, topic_bytes
from punctual.client.times import span_ms
from punctual.client.user_headers import RawHeader
from punctual.contract import headers as names
from punctual.contract.retry import Backoff, parse_backoff, parse_span, retry_id

#: What is said anew with each attempt.
_ANEW: Final = frozenset({names.TO, names.RETRY, names.MAX_ATTEMPTS, names.ERROR, names.REASON})
_ERROR_LETTERS: Final = 1_000


class Received(Protocol):
    """A record as Kafka's clients hand it over: aiokafka's, or a Faust event's message."""

    @property
    def topic(self) -> str:
        """Where it was read."""

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

    With `jitter`, an attempt comes after something between the half and the whole of that, so that those that failed
    together do not come back together. Spans are timedeltas, or text such as "500ms", "1s", "15m", "2h", "PT90S".
    Raises InvalidOptionError.
    """
    backoff = Backoff(_span(base, "base"), float(factor), _span(max, "max"), jitter)
    try:
        return parse_backoff(str(backoff))
    except ValueError as error:
        raise InvalidOptionError(f"This is no backoff: {error}.") from error


def retry(
    record: Received,
    *,
    backoff: Backoff,
    max_attempts: int | None,
    to: object = None,
    error: BaseException | str | None = None,
) -> Request:
    """Return the request for another attempt at a record, which goes back `to` its own topic if no other is given.

    Key, value and headers stay. Its id is that of the source and the attempt, as the worker finds it too, so that the
    request goes home at once. Raises an InvalidRequestError.
    """
    check_most(max_attempts)
    kept = [header for header in _pairs(record.headers) if header[0] not in _ANEW]
    known = dict(reversed(kept))  # the first of a name counts
    where = topic_bytes(record.topic if to is None else to)
    source = (known.get(names.SOURCE) or b"").decode(errors="replace")
    if not source:
        source = f"{record.topic}-{record.partition}-{record.offset}"
        kept.append((names.SOURCE, source.encode()))
    ours = [(names.TO, where), (names.RETRY, str(backoff).encode())]
    if max_attempts is not None:
        ours.append((names.MAX_ATTEMPTS, b"%d" % max_attempts))
    if error is not None:
        ours.append((names.ERROR, _sentence(error)))
    id_ = retry_id(source, attempt_of(known) + 1, where.decode())
    return Request(record.key, record.value, (*kept, *ours), id_.encode())


def counted(record: Received, attempts: int) -> Received:
    """Return a record as if its headers said that it is the attempt of this number."""
    headers = [header for header in _pairs(record.headers) if header[0] != names.ATTEMPT]
    return _Counted(record, [*headers, (names.ATTEMPT, b"%d" % attempts)])


class _Counted:
    """A record with other headers."""

    def __init__(self, record: Received, headers: list[RawHeader]) -> None:
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset
        self.key, self.value, self.headers = record.key, record.value, headers


def check_most(max_attempts: int | None) -> None:
    """Raise InvalidOptionError unless there can be so many attempts."""
    if max_attempts is not None and not is_count(max_attempts):
        raise InvalidOptionError(f"max_attempts={max_attempts!r} is no number of attempts: give 1 or more, or None.")


def is_count(number: object) -> bool:
    """Return whether something is a number of attempts."""
    return isinstance(number, int) and number > 0


def attempt_of(headers: Mapping[str, bytes | None]) -> int:
    """Return which attempt a record is: a record that nobody has counted is the first."""
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
        return parse_span(span)
    except ValueError as error:
        raise InvalidOptionError(f"{name}: {error}.") from error


DEFAULT_BACKOFF: Final = exponential()
