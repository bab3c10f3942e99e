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


class KeyedIds:
    """Ids for the message at a place of an order that has none: the same ones from each gateway.

    As other ids of gateways they say where they live, in the partition of the record's key, so that messages of one
    key keep their order (records.md#commands).
    """

    def __init__(self, order: bytes, place: int, requests: str, partitions: int) -> None:
        """Make ids of an order for the requests topic of an installation with so many partitions."""
        self._seed = order + place.to_bytes(4, "big")
        self._requests, self._partitions, self._count = requests, partitions, 0

    def id(self, key: bytes | None) -> str:
        """Return the next id."""
        digest = sha256(self._seed + self._count.to_bytes(4, "big")).digest()
        self._count += 1
        number = int.from_bytes(digest[:_BYTES], "big")
        home = number % self._partitions if key is None else key_partition(key, self._partitions)
        return f"{self._requests}-{home}-{_LEAST + number}"
