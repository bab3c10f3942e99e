"""A steady load for long: whether memory grows."""

import statistics
import time
from dataclasses import replace

from benchmarks.clock import now_ms
from benchmarks.experiments import lateness
from benchmarks.figures import Figures, spread
from benchmarks.installation import Installation
from benchmarks.meter import Meter
from benchmarks.sizes import Sizes

_EVERY_S = 1.0
#: Memory is compared between these parts of the time: before, caches fill and the interpreter takes its arenas.
_PART = 0.2


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Send `soak_rate` messages a second for `soak_s` seconds, due 1 to 10 s ahead, and sample the worker's memory.

    Growth is the median of the last fifth of the samples over that of the second fifth.
    """
    with Installation(bootstrap, "soak") as here, Meter(*here.pids) as meter:
        plan = lateness.planned(here, replace(sizes, rate=sizes.soak_rate, seconds=sizes.soak_s))
        mib = [meter.resident_mib()]
        with here.sending(plan) as load:
            while now_ms() < plan.send_ms(plan.count):
                time.sleep(_EVERY_S)
                mib.append(meter.resident_mib())
            load.wait()
        here.wait_settled()
        late = spread([delivery.late_ms for delivery in here.tally().deliveries(plan)])
    part = max(1, int(len(mib) * _PART))
    first, last = statistics.median(mib[part : 2 * part]), statistics.median(mib[-part:])
    return {"soak": {**late, "first_mib": first, "last_mib": last, "growth": (last / first - 1) * 100}}
