"""Jitter: spreads messages that are requested for the same time."""

import hashlib

_BITS = 64


def spread(id_: str, asked_ms: int, jitter_ms: int) -> int:
    """Return the due time of a message with jitter: from the requested time to at most `jitter_ms` after it.

    It depends only on the id and the requested time, so every reader of the request gets the same result. All
    milliseconds are equally likely.
    """
    digest = hashlib.blake2b(b"%d %s" % (asked_ms, id_.encode()), digest_size=_BITS // 8).digest()
    return asked_ms + (int.from_bytes(digest, "big") * (jitter_ms + 1) >> _BITS)
