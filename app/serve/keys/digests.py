"""Digests of keys and requests, and the IDs that follow from both. Keys may be secrets, so only digests are stored."""

from hashlib import sha256
from typing import Final, NamedTuple

from app.serve.messages.receipts import Origin
from punctual.contract.home import key_partition

#: Larger than any offset, so that no record's automatic ID is the same as a key's.
_LEAST: Final = 10**31
_BYTES: Final = 12


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
