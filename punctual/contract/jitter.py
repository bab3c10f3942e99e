"""Jitter: messages that are asked for the same moment are due one after the other."""

import hashlib

_BITS = 64


def spread(id_: str, asked_ms: int, jitter_ms: int) -> int:
    """Return when a message is due that may be so much later than was asked for: `jitter_ms` at the most.

    The id and the due time asked for decide, so that whoever reads the same request again finds the same. All
    milliseconds are equally likely.
    """
    digest = hashlib.blake2b(b"%d %s" % (asked_ms, id_.encode()), digest_size=_BITS // 8).digest()
    return asked_ms + (int.from_bytes(digest, "big") * (jitter_ms + 1) >> _BITS)
