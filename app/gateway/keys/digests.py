"""What is kept of a key and of a request, and the ids that follow from both: digests, for keys may be secrets."""

from hashlib import sha256
from typing import Final, NamedTuple

from punctual.contract.home import key_partition

#: Larger than any offset: an id that follows from a key is none of a record.
_LEAST: Final = 10**31
_BYTES: Final = 12


class FirstReceipt(NamedTuple):
    """What the messages of a request take from its first receipt: what their ids follow from, and when it came (ms)."""

    seed: bytes
    asked_ms: int


def key_digest(scope: str, key: str) -> bytes:
    """Return the digest of a key, which is another one for each who asks (`scope`: a token's name)."""
    return sha256(b"%s\0%s" % (scope.encode(), key.encode())).digest()


def request_digest(method: str, path: str, body: bytes) -> bytes:
    """Return the digest of a request: what must be the same when its key comes again."""
    return sha256(b"%s\0%s\0%s" % (method.encode(), path.encode(), body)).digest()


def id_seed(key: bytes, request: bytes) -> bytes:
    """Return the seed of the ids of a request's messages, from the digests of its key and of the request."""
    return sha256(key + request).digest()


class KeyedOrigin:
    """What the messages of a request have from its key: the moment of the first receipt, and the same ids everywhere.

    As other ids of gateways they say where they live, in the partition of the record's key, so that messages of one
    key keep their order (records.md#commands).
    """

    def __init__(self, asked: FirstReceipt, requests: str, partitions: int) -> None:
        """Make ids for the requests topic of an installation with so many partitions."""
        self.moment_ms = asked.asked_ms
        self._seed, self._requests, self._partitions = asked.seed, requests, partitions

    def id(self, number: int, key: bytes | None) -> str:
        """Return the id of a message that has none: another one for each number, living where its key does."""
        digest = sha256(self._seed + number.to_bytes(8, "big")).digest()
        chosen = int.from_bytes(digest[:_BYTES], "big")
        home = chosen % self._partitions if key is None else key_partition(key, self._partitions)
        return f"{self._requests}-{home}-{_LEAST + chosen}"
