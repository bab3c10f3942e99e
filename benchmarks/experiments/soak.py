"""A steady load for long: whether memory grows."""

import statistics
import threading
from typing import Self

from benchmarks.clock import now_ms
from benchmarks.figures import Figures, spread
from benchmarks.installation import Installation
from benchmarks.meter import Meter
from benchmarks.sizes import Sizes

_SOON_MS = 2_000
_EVERY_S = 1.0
#: Memory is compared between these parts of the time: before, caches fill and the interpreter takes its arenas.
_PART = 0.2


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Send `soak_rate` messages a second for `soak_s` seconds, due 1 to 10 s ahead, and sample the worker's memory.

    Growth is the median of the last fifth of the samples over that of the second fifth.
    """
    with Installation(bootstrap, "soak") as here, Meter(*here.pids) as meter:
        begin = now_ms() + _SOON_MS
        load = here.plan(
            "steady",
            sizes.soak_rate * sizes.soak_s,
            begin,
            step_us=1_000_000 // sizes.soak_rate,
            lead_ms=sizes.due_from_ms,
            spread_ms=sizes.due_to_ms - sizes.due_from_ms,
            start_ms=begin,
            paced=True,
            value_bytes=sizes.value_bytes,
        )
        with _Sampled(meter) as sampled:
            here.send(load)
        here.wait_settled()
        late = spread([delivery.late_ms for delivery in here.tally().deliveries(load)])
    part = max(1, int(len(sampled.mib) * _PART))
    first, last = statistics.median(sampled.mib[part : 2 * part]), statistics.median(sampled.mib[-part:])
    return {"soak": {**late, "first_mib": first, "last_mib": last, "growth": (last / first - 1) * 100}}


class _Sampled:
    """The resident size in MiB, each second while the `with` block runs."""

    def __init__(self, meter: Meter) -> None:
        self._meter, self.mib = meter, [meter.resident_mib()]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            self.mib.append(self._meter.resident_mib())
