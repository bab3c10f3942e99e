"""Foreign bytes for fuzzing: random, cut off, changed here and there, or foreign as a whole.

FUZZ_SEEDS is how many seeds a test tries (200), FUZZ_FIRST the first seed (0).
"""

import os
import random
from collections.abc import Sequence

from hypothesis import settings

Pair = tuple[bytes | None, bytes | None]

_FOREIGN: Sequence[bytes] = (
    b"",
    b"{}",
    b"null",
    b"[" * 50_000,
    b'{"a":' * 20_000,
    b"\x90",
    b"\xc1",
    b"\xdd\xff\xff\xff\xff",
    b"\xff" * 100,
    "Grüße".encode(),
    b"\x00" * 8,
    b"9" * 5_000,
)


#: As many examples has a property by default (Hypothesis), in `make test`.
_USUAL = 100


def share(number: int) -> int:
    """Return how many of a number of examples are tried: all, in `make check` the share that its profile says."""
    return max(1, number * settings().max_examples // _USUAL)


def seeds(number: int = 200) -> range:
    """Return the seeds to try."""
    first = int(os.environ.get("FUZZ_FIRST", "0"))
    return range(first, first + int(os.environ.get("FUZZ_SEEDS", str(share(number)))))


def mangled(seed: int, genuine: Sequence[Pair]) -> Pair:
    """Return a record that is like one of the genuine ones, or like none."""
    rnd = random.Random(seed)  # noqa: S311
    key, value = rnd.choice(genuine)
    which = rnd.choice(("key", "value", "value", "both"))
    if which != "value":
        key = _mangled(rnd, key)
    if which != "key":
        value = _mangled(rnd, value)
    return key, value


def _mangled(rnd: random.Random, raw: bytes | None) -> bytes:
    raw = raw or b""
    match rnd.randrange(6):
        case 0:
            return rnd.randbytes(rnd.randrange(64))
        case 1:
            return raw[: rnd.randrange(len(raw) + 1)]
        case 2:
            return raw + rnd.randbytes(rnd.randrange(1, 9))
        case 3:
            return rnd.choice(_FOREIGN)
        case _:
            changed = bytearray(raw)
            for _ in range(rnd.randrange(1, 4)):
                if changed:
                    changed[rnd.randrange(len(changed))] = rnd.randrange(256)
            return bytes(changed)
