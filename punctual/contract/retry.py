"""Retries: when a record whose processing failed comes back, and with which id (records.md#retries).

A record without a count is the first attempt; later attempts have their number in `names.ATTEMPT`.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from punctual.contract import headers as names
from punctual.contract.dialects.fields import parsed
from punctual.contract.request import ID_BYTES, Reason, Refusal, Request
from punctual.contract.times import parse_duration

EXAMPLE: Final = "exponential 1s 2 1h jitter"

_FACTOR: Final = re.compile(r"\d{1,4}(\.\d{1,4})?", re.ASCII)
_COUNT: Final = re.compile(r"\d{1,9}", re.ASCII)
#: The maximum length of a backoff.
_LETTERS: Final = 256
#: The maximum bytes of an attempt's id, which leaves room for the name of a namespace.
_LONGEST: Final = ID_BYTES - 64
#: The results of `retry_id`, with or without a namespace: a user's id may also end with a tilde and digits.
_HASHED: Final = r"(?:\A|/)[0-9a-f]{32}~(\d{1,9})\Z"
_NAMED: Final = r"~(\d{1,9})~([^~@]+)(?:@[^~]*)?\Z"
_ATTEMPT: Final = re.compile(rf"{_HASHED}|{_NAMED}", re.ASCII)
#: The same, but only for records that are identified by their place, or by the digest of their content.
_ATTEMPT_AT_RECORD: Final = re.compile(rf"{_HASHED}|(?:-\d+-\d+|#[0-9a-f]{{16}}){_NAMED}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait after each failed attempt: `base_ms`, then `factor` times as long each time, up to `max_ms`.

    With `jitter`, each wait is a random time between half the backoff and the whole backoff.
    """

    base_ms: int
    factor: float
    max_ms: int
    jitter: bool = False

    def delay_ms(self, failed: int, id_: str) -> int:
        """Return the wait after `failed` attempts; the jitter depends on the id, so it is the same each time."""
        try:
            whole = min(float(self.max_ms), self.base_ms * self.factor ** (failed - 1))
        except OverflowError:
            whole = float(self.max_ms)
        if not self.jitter:
            return round(whole)
        share = int.from_bytes(hashlib.blake2b(id_.encode(), digest_size=6).digest()) / (1 << 48)
        return round(whole / 2 + whole / 2 * share)

    def __str__(self) -> str:
        """Return it in the form of `names.RETRY`."""
        jitter = " jitter" if self.jitter else ""
        return f"exponential {self.base_ms}ms {self.factor:g} {self.max_ms}ms{jitter}"


def parse_backoff(text: str) -> Backoff:
    """Parse the backoff in a header: `exponential <base> <factor> <max> [jitter]`.

    Raises ValueError with a sentence.
    """
    kind, *words = text[: _LETTERS + 1].split(" ")
    jitter = words[3:] == ["jitter"]
    if len(text) > _LETTERS or kind != "exponential" or len(words) != 3 + jitter or not _FACTOR.fullmatch(words[1]):
        msg = f"{text[:64]!r} is not a backoff. Use exponential, base, factor, maximum and optionally jitter: {EXAMPLE}"
        raise ValueError(msg)
    backoff = Backoff(parse_duration(words[0]), float(words[1]), parse_duration(words[2]), jitter)
    if backoff.factor < 1 or not 0 < backoff.base_ms <= backoff.max_ms:
        msg = f"{text[:64]!r} must have a base above 0, a factor of 1 or more, and a maximum that is not below the base"
        raise ValueError(msg)
    return backoff


def retry_id(source: str, attempt: int, to: str, cluster: str | None = None) -> str:
    """Return the id of the attempt with this number at a record, the same in every client that retries the record.

    `source` identifies the record. The destination is part of the id because several groups may each retry the records
    that they read. No other message has such an id.
    """
    where = to if cluster is None else f"{to}@{cluster}"
    id_ = f"{source}~{attempt}~{where}"
    if len(id_.encode()) <= _LONGEST:
        return id_
    return f"{hashlib.blake2b(id_.encode(), digest_size=16).hexdigest()}~{attempt}"


def names_attempt(id_: str, attempt: int, topic: str | None) -> bool:
    """Return whether an id is that of the attempt with this number at a record that is delivered to `topic`.

    None stands for any topic.
    """
    match = _ATTEMPT.search(id_)
    if match is None or int(match[1] or match[2]) != attempt:
        return False
    return match[3] is None or topic in (None, match[3])


def copy_source(source: str, due: bytes | None, key: bytes | None, value: bytes | None) -> str:
    """Return an identity for a record that still has the headers of a delivery.

    All occurrences of a recurring message have the same `source`, but different due times; and programs copy these
    headers into records that they derive from a delivery, with different content.
    """
    salt = hashlib.blake2b(b"" if key is None else b"key " + key, digest_size=16).digest()
    content = hashlib.blake2b(b"" if value is None else b"value " + value, digest_size=8, salt=salt)
    return f"{source}@{(due or b'').decode(errors='replace')}#{content.hexdigest()}"


def decode(request: Request, fields: dict[str, str], headers: Iterable[tuple[str, bytes | None]]) -> None:
    """Make a request the next attempt at the record that it forwards; `headers` are all headers of the record.

    An id together with `names.DUE` belongs to the delivery that the record was before. Raises Refusal.
    """
    twice = next((name for name in (names.AT, names.AFTER) if name in fields), None)
    if twice is not None:
        raise Refusal(Reason.AMBIGUOUS_DUE, f"{names.RETRY} and {twice} are both given. Send one of them.")
    backoff = parsed(names.RETRY, fields[names.RETRY], parse_backoff)
    most = _count(fields, names.MAX_ATTEMPTS)
    known: dict[str, bytes | None] = {}
    for name, value in headers:
        known.setdefault(name, value)
    source = (known.get(names.SOURCE) or b"").decode(errors="replace")
    failed = _failed(request, fields, source, forwarded=names.DUE in known)
    if most is not None and failed >= most:
        raise Refusal(Reason.ATTEMPTS_EXHAUSTED, _exhausted(failed, most, known.get(names.ERROR)))
    if names.DUE in known and source:
        source = copy_source(source, known[names.DUE], request.key, request.value)
    if names.ID not in fields or names.DUE in known:
        request.id = retry_id(source or request.source, failed + 1, request.to, request.cluster)
    request.headers = [*request.headers, (names.ATTEMPT, b"%d" % (failed + 1))]
    request.due_ms = request.stamp_ms + backoff.delay_ms(failed, request.id)


def _failed(request: Request, headers: dict[str, str], source: str, *, forwarded: bool) -> int:
    """Return the number of failed attempts at a record.

    A record that is `forwarded` as it was received has the count of its own delivery, or of another message whose
    headers were copied: an attempt's id contains its number and its topic. A consumer may have put the record's place
    into `source`, which then contains the topic. With any other id, a program has counted by itself.
    """
    count = _count(headers, names.ATTEMPT)
    if not count:
        return 1
    read_from = source.rsplit("-", 2)[0]
    topic = None if read_from in ("", request.input) else read_from
    id_ = headers.get(names.ID, "")
    is_of_another = forwarded and _ATTEMPT_AT_RECORD.search(id_) is not None and not names_attempt(id_, count, topic)
    return 1 if is_of_another else count


def carry(request: Request, headers: dict[str, str]) -> None:
    """Keep the count of attempts of a request that is not a retry.

    Raises Refusal.
    """
    if names.MAX_ATTEMPTS in headers:
        raise Refusal(Reason.MALFORMED, f"{names.MAX_ATTEMPTS} needs {names.RETRY}, which says when to try again.")
    count = _count(headers, names.ATTEMPT)
    if count is not None:
        request.headers = [*request.headers, (names.ATTEMPT, b"%d" % count)]


def _count(headers: dict[str, str], name: str) -> int | None:
    text = headers.get(name)
    return None if text is None else parsed(name, text, _parse_count)


def _parse_count(text: str) -> int:
    if not _COUNT.fullmatch(text):
        msg = f"{text[:64]!r} is not a count of attempts. Use a whole number in ASCII digits"
        raise ValueError(msg)
    return int(text)


def _exhausted(failed: int, most: int, error: bytes | None) -> str:
    why = f", the last with: {error.decode(errors='replace')[:2_000]}" if error else ""
    return (
        f"{failed} attempts have failed and {names.MAX_ATTEMPTS} is {most}{why}. Fix the cause, then send it "
        f"again without {names.ATTEMPT}."
    )
