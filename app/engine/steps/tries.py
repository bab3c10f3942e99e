"""When a request over HTTP is tried again that was not taken."""

import zlib

#: The first wait, and the longest; each is twice the one before, give or take a quarter.
FIRST_MS, LONGEST_MS = 1_000, 3_600_000
_JITTER = 0.25
_DOUBLINGS = 12


def wait_ms(failed: int, source: str, after_ms: int | None = None) -> int:
    """Return how many milliseconds after its `failed`-th try a message is tried again, at least `after_ms`.

    It is the same for the same source and number: a step that is done again after a crash decides alike.
    """
    average_ms = min(LONGEST_MS, FIRST_MS << min(failed - 1, _DOUBLINGS))
    share = zlib.crc32(f"{source} {failed}".encode()) / 0xFFFFFFFF
    return max(round(average_ms * (1 - _JITTER + 2 * _JITTER * share)), after_ms or 0)
