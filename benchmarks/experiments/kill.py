"""Duplicates when a worker is killed in the middle of a burst."""

import statistics
import time

from benchmarks import topics
from benchmarks.clock import now_ms, sleep_until, wait_for
from benchmarks.errors import TooSlow
from benchmarks.figures import Figures
from benchmarks.installation import Installation
from benchmarks.plan import Plan
from benchmarks.sizes import Sizes

_SPREAD_MS = 1
_POLL_S = 0.005
#: By then the dead worker's last batches have reached the broker.
_LAST_WORDS_S = 0.2


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Kill the worker `kills` times, each in the middle of a burst of `kill_burst` messages that are due at once.

    Duplicates are counted at the destination, burst by burst. The rate is from the due time to the kill; the next
    worker delivers the rest.

    Raises TooSlow if ingest is not over when a burst falls due.
    """
    with Installation(bootstrap, "kill") as here:
        bursts, rates = [], []
        for number in range(sizes.kills):
            burst, per_s = _killed(here, number, sizes)
            bursts.append(burst)
            rates.append(per_s)
        tally = here.tally(duplicates_allowed=True)
        twice = [tally.repeats[burst.name] for burst in bursts]
    return {
        "kill": {
            "kills": sizes.kills,
            "twice": statistics.median(twice),
            "twice_most": max(twice),
            "drain_per_s": statistics.median(rates),
        }
    }


def _killed(here: Installation, number: int, sizes: Sizes) -> tuple[Plan, float]:
    """Have a burst fall due, kill the worker when half is delivered, and have the next worker deliver the rest.

    Return the burst, and how many messages a second had been delivered.
    """
    due = now_ms() + int(sizes.lead_s * 1_000)
    burst = here.plan(f"burst{number}", sizes.kill_burst, due, spread_ms=_SPREAD_MS, value_bytes=sizes.value_bytes)
    ends = topics.Ends(here.bootstrap)
    try:
        here.send(burst)
        here.wait_taken()
        before = ends.total(here.out)
        if now_ms() >= due:
            msg = f"Ingest was not over when the messages fell due, after {sizes.lead_s:g} s. Give more with --lead."
            raise TooSlow(msg)
        sleep_until(due)
        half = before + burst.count // 2
        wait_for(lambda: ends.total(here.out) >= half, sizes.lead_s + 60, "Half of the burst", _POLL_S)
        killed = here.worker.kill()
        time.sleep(_LAST_WORDS_S)
        delivered = ends.total(here.out) - before
    finally:
        ends.close()
    here.worker.start()
    here.worker.wait_ready()
    here.wait_settled()
    return burst, delivered / (killed - due) * 1_000
