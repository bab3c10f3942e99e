"""What is kept of a key and of a request, and the ids that follow from both: digests, for keys may be secrets."""

from hashlib import sha256
from typing import Final

from punctual.contract.home import key_partition

#: Larger than any offset: an id that follows from a key is none of a record.
_LEAST: Final = 10**31
_BYTES: Final = 12


def key_digest(scope: str, key: str) -> bytes:
    """Return the digest of a key, which is another one for each who asks (`scope`: a token's name)."""
    return sha256(b"%s\0%s" % (scope.encode(), key.encode())).digest()


def request_digest(method: str, path: str, body: bytes) -> bytes:
    """Return the digest of a request: what must be the same when its key comes again."""
    return sha256(b"%s\0%s\0%s" % (method.encode(), path.encode(), body)).digest()


def order_digest(key: bytes, request: bytes) -> bytes:
    """Return the digest that the ids of a request's messages follow from, by those of its key and the request."""
    return sha256(key + request).digest()


def id_of(order: bytes, place: int, requests: str, partitions: int, record_key: bytes | None) -> str:
    """Return the id of a message that has none, the one at a place of an order.

    Gateways that cannot ask each other give the same one. As other ids of gateways it says where it lives: in the
    partition of the record's key, so that messages of one key keep their order (records.md#commands).
    """
    number = int.from_bytes(sha256(order + place.to_bytes(4, "big")).digest()[:_BYTES], "big")
    home = number % partitions if record_key is None else key_partition(record_key, partitions)
    return f"{requests}-{home}-{_LEAST + number}"
