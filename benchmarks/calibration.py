"""A fixed piece of work in pure Python: its CPU time is the unit in which different machines can be compared."""

import statistics
import struct
import time

_ROUNDS = 60_000
_TIMES = 5
_KEY = struct.Struct(">QQI")


def loop() -> int:
    """Do the work: keys packed, sorted and looked up, headers split and joined, as a delay queue in Python would."""
    rows: dict[bytes, bytes] = {}
    for number in range(_ROUNDS):
        key = _KEY.pack(number * 2_654_435_761 % (1 << 40), number, number & 0xFFFF)
        name, _, text = f"delay-id={number}".partition("=")
        rows[key] = b"|".join((name.encode(), text.encode(), key))
    return sum(len(rows[key].split(b"|")[1]) + _KEY.unpack(key)[1] for key in sorted(rows))


def loop_s() -> float:
    """Return the median CPU time of the loop, in seconds."""
    return statistics.median(_timed() for _ in range(_TIMES))


def _timed() -> float:
    began = time.process_time()
    loop()
    return time.process_time() - began
