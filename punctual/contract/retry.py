"""Retries: when a record whose processing failed comes back, and under which id (records.md#retries).

A record without a count of its own is the first attempt; what comes back says in `names.ATTEMPT` which one it is.
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
#: No backoff needs more.
_LETTERS: Final = 256
#: The longest id of an attempt: a namespace's name fits before it.
_LONGEST: Final = ID_BYTES - 64
#: What `retry_id` returns, within a namespace or not: a user's id may well end with a tilde and digits.
_HASHED: Final = r"(?:\A|/)[0-9a-f]{32}~(\d{1,9})\Z"
_NAMED: Final = r"~(\d{1,9})~([^~@]+)(?:@[^~]*)?\Z"
_ATTEMPT: Final = re.compile(rf"{_HASHED}|{_NAMED}", re.ASCII)
#: Of these, what names a record by its place, or by the digest of its content.
_ATTEMPT_AT_RECORD: Final = re.compile(rf"{_HASHED}|(?:-\d+-\d+|#[0-9a-f]{{16}}){_NAMED}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a record waits after each failed attempt: `base_ms`, then `factor` times as long, up to `max_ms`.

    With `jitter` it waits for something between the half and the whole of that.
    """

    base_ms: int
    factor: float
    max_ms: int
    jitter: bool = False

    def delay_ms(self, failed: int, id_: str) -> int:
        """Return how long to wait after so many failed attempts; the id decides the jitter: it is chosen once."""
        try:
            whole = min(float(self.max_ms), self.base_ms * self.factor ** (failed - 1))
        except OverflowError:
            whole = float(self.max_ms)
        if not self.jitter:
            return round(whole)
        share = int.from_bytes(hashlib.blake2b(id_.encode(), digest_size=6).digest()) / (1 << 48)
        return round(whole / 2 + whole / 2 * share)

    def __str__(self) -> str:
        """Return it as `names.RETRY` has it."""
        jitter = " jitter" if self.jitter else ""
        return f"exponential {self.base_ms}ms {self.factor:g} {self.max_ms}ms{jitter}"


def parse_backoff(text: str) -> Backoff:
    """Return the backoff that a header says: `exponential <base> <factor> <max> [jitter]`.

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
    """Return the id of the attempt of this number at a record, the same for every client that retries the record.

    `source` is what identifies the record. The destination is part of the id because several groups may each retry
    what they have read. No other message has such an id.
    """
    where = to if cluster is None else f"{to}@{cluster}"
    id_ = f"{source}~{attempt}~{where}"
    if len(id_.encode()) <= _LONGEST:
        return id_
    return f"{hashlib.blake2b(id_.encode(), digest_size=16).hexdigest()}~{attempt}"


def names_attempt(id_: str, attempt: int, topic: str | None) -> bool:
    """Return whether an id is that of the attempt of this number at a record that is delivered to a topic.

    None stands for any topic.
    """
    found = _ATTEMPT.search(id_)
    if found is None or int(found[1] or found[2]) != attempt:
        return False
    return found[3] is None or topic in (None, found[3])


def copy_source(source: str, due: bytes | None, key: bytes | None, value: bytes | None) -> str:
    """Return what identifies a record that still has the headers of a delivery.

    All occurrences of a recurring message have the same `source`, each with another due time; and programs copy these
    headers into records that they make of a delivery, each with other content.
    """
    salt = hashlib.blake2b(b"" if key is None else b"key " + key, digest_size=16).digest()
    content = hashlib.blake2b(b"" if value is None else b"value " + value, digest_size=8, salt=salt)
    return f"{source}@{(due or b'').decode(errors='replace')}#{content.hexdigest()}"


def decode(request: Request, said: dict[str, str], headers: Iterable[tuple[str, bytes | None]]) -> None:
    """Make a request the next attempt at the record that it forwards; `headers` are all that it has.

    The id beside `names.DUE` is that of the delivery that the record was before, and not asked for. Raises Refusal.
    """
    twice = next((name for name in (names.AT, names.AFTER) if name in said), None)
    if twice is not None:
        raise Refusal(Reason.AMBIGUOUS_DUE, f"{names.RETRY} and {twice} are both given. Send one of them.")
    backoff = parsed(names.RETRY, said[names.RETRY], parse_backoff)
    most = _count(said, names.MAX_ATTEMPTS)
    known: dict[str, bytes | None] = {}
    for name, value in headers:
        known.setdefault(name, value)
    source = (known.get(names.SOURCE) or b"").decode(errors="replace")
    failed = _failed(request, said, source, forwarded=names.DUE in known)
    if most is not None and failed >= most:
        raise Refusal(Reason.ATTEMPTS_EXHAUSTED, _exhausted(failed, most, known.get(names.ERROR)))
    if names.DUE in known and source:
        source = copy_source(source, known[names.DUE], request.key, request.value)
    if names.ID not in said or names.DUE in known:
        request.id = retry_id(source or request.source, failed + 1, request.to, request.cluster)
    request.headers = [*request.headers, (names.ATTEMPT, b"%d" % (failed + 1))]
    request.due_ms = request.stamp_ms + backoff.delay_ms(failed, request.id)


def _failed(request: Request, said: dict[str, str], source: str, *, forwarded: bool) -> int:
    """Return how many attempts at a record have failed.

    A record that is `forwarded` as it was received has the count of its own delivery, or one that was copied from
    another message with its headers: the id of an attempt names it, and the topic that it went to. Where a consumer has
    put the place of the record into `source`, that is the topic. Beside any other id a program has counted itself.
    """
    count = _count(said, names.ATTEMPT)
    if not count:
        return 1
    read_from = source.rsplit("-", 2)[0]
    topic = None if read_from in ("", request.input) else read_from
    id_ = said.get(names.ID, "")
    is_of_another = forwarded and _ATTEMPT_AT_RECORD.search(id_) is not None and not names_attempt(id_, count, topic)
    return 1 if is_of_another else count


def carry(request: Request, said: dict[str, str]) -> None:
    """Let a request that is no retry itself go on with the count of attempts that it came with.

    Raises Refusal.
    """
    if names.MAX_ATTEMPTS in said:
        raise Refusal(Reason.MALFORMED, f"{names.MAX_ATTEMPTS} needs {names.RETRY}, which says when to try again.")
    count = _count(said, names.ATTEMPT)
    if count is not None:
        request.headers = [*request.headers, (names.ATTEMPT, b"%d" % count)]


def _count(said: dict[str, str], name: str) -> int | None:
    text = said.get(name)
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
