"""Records of the topic of receipts, and the digests that stand in them for keys and requests, which may be secrets.

The key of a record is the digest of the request's key, its value a Receipt or an Answered as JSON.
"""

from hashlib import sha256
from typing import Final, NamedTuple, Self

import msgspec

from app.base.process.skipped_records import bounded
from app.serve.messages.receipts import Origin
from punctual.contract.home import key_partition

#: Larger than any offset, so that no record's automatic ID is the same as a key's.
_LEAST: Final = 10**31
_BYTES: Final = 12


class GivenAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The response to a request."""

    status: int
    body: str = ""
    headers: dict[str, str] = {}


class Receipt(msgspec.Struct, frozen=True, tag="receipt", tag_field="kind"):
    """The receipt of a request: its digest, its worker or `gateway`, and its arrival by that server's clock (ms)."""

    request: bytes
    gateway: str
    asked_ms: int


class Answered(msgspec.Struct, frozen=True, tag="answered", tag_field="kind"):
    """The response to the request whose receipt `gateway` wrote at `asked_ms`."""

    gateway: str
    asked_ms: int
    answer: GivenAnswer


Record = Receipt | Answered

encode = msgspec.json.Encoder().encode
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def decode(value: bytes | None) -> Record:
    """Return the record in a value. Raises ValueError for an invalid value."""
    try:
        return _decoder.decode(bounded(value))
    except RecursionError as error:
        raise ValueError("it has too many levels of nesting") from error


class Known(msgspec.Struct, frozen=True, array_like=True):
    """A known key: its first receipt, and the response if there is one.

    The key is valid for a day from `since_ms`: the broker's time of writing, or this server's clock for a receipt
    that is `local`, not read from the topic.
    """

    request: bytes
    gateway: str
    asked_ms: int
    since_ms: int
    local: bool = False
    answer: GivenAnswer | None = None

    @classmethod
    def of(cls, receipt: Receipt, since_ms: int, *, local: bool = False) -> Self:
        """Return the known key for a first receipt."""
        return cls(receipt.request, receipt.gateway, receipt.asked_ms, since_ms, local)

    def is_of(self, record: Receipt | Answered) -> bool:
        """Return whether a record is this receipt, or its response."""
        return (self.gateway, self.asked_ms) == (record.gateway, record.asked_ms)

    @property
    def records(self) -> list[Record]:
        """The receipt, and the response if there is one, as they are written to the topic."""
        receipt = Receipt(self.request, self.gateway, self.asked_ms)
        return [receipt, *([] if self.answer is None else [Answered(self.gateway, self.asked_ms, self.answer)])]


class FirstReceipt(NamedTuple):
    """The seed of the IDs of a request's messages, and the time of its first receipt (ms)."""

    seed: bytes
    asked_ms: int


def key_digest(scope: str, key: str) -> bytes:
    """Return the digest of a key, which differs between callers (`scope`: a token's name)."""
    return sha256(b"%s\0%s" % (scope.encode(), key.encode())).digest()


def request_digest(method: str, path: str, body: bytes) -> bytes:
    """Return the digest of a request: method, path and body, which must be the same when its key is repeated."""
    return sha256(b"%s\0%s\0%s" % (method.encode(), path.encode(), body)).digest()


def id_seed(key: bytes, request: bytes) -> bytes:
    """Return the seed of the ids of a request's messages, from the digests of its key and of the request."""
    return sha256(key + request).digest()


def keyed_origin(first: FirstReceipt, requests: str, partitions: int) -> Origin:
    """Return the origin of a request with a key: the time of the first receipt, and the same IDs on all servers.

    The IDs are for the requests topic of an installation with `partitions` partitions. They contain their home, the
    partition of the record's key, so that messages with one key keep their order (records.md#commands).
    """

    def id_of(number: int, key: bytes | None) -> str:
        digest = sha256(first.seed + number.to_bytes(8, "big")).digest()
        chosen = int.from_bytes(digest[:_BYTES], "big")
        home = chosen % partitions if key is None else key_partition(key, partitions)
        return f"{requests}-{home}-{_LEAST + chosen}"

    return Origin(first.asked_ms, id_of)
