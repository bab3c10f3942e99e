"""A steady load above a backlog: the lateness of its messages, and its CPU."""

from benchmarks.clock import now_ms
from benchmarks.figures import spread
from benchmarks.follower import Follower
from benchmarks.installation import Installation
from benchmarks.meter import Meter
from benchmarks.plan import Plan
from benchmarks.sizes import Sizes
from benchmarks.target import Target

_SOON_MS = 2_000
#: The CPU figure is scaled to this many messages, the load of half a minute.
_PER = 30_000
_SEEN = ("p50_ms", "p99_ms", "p999_ms")


def measure(bootstrap: str, sizes: Sizes) -> dict[str, dict[str, float]]:
    """Measure a fresh installation as `steady` does."""
    with Installation(bootstrap, "lateness") as here:
        return {"lateness": steady(here, sizes)}


def planned(here: Target, sizes: Sizes) -> Plan:
    """Plan `rate` messages a second for `seconds`, due 1 to 10 s ahead, from soon on."""
    begin = now_ms() + _SOON_MS
    return here.plan(
        f"steady{sizes.rate}",
        sizes.rate * sizes.seconds,
        begin,
        step_us=1_000_000 // sizes.rate,
        lead_ms=sizes.due_from_ms,
        spread_ms=sizes.due_to_ms - sizes.due_from_ms,
        start_ms=begin,
        paced=True,
        value_bytes=sizes.value_bytes,
    )


def fill(here: Target, sizes: Sizes) -> None:
    """Have `backlog` messages pending far ahead."""
    if sizes.backlog > here.far:
        here.send(here.plan_far(f"far{here.far}", sizes.backlog - here.far, value_bytes=sizes.value_bytes))
        here.wait_settled()


def steady(here: Target, sizes: Sizes) -> dict[str, float]:
    """Send `rate` messages a second, due 1 to 10 s ahead, while `backlog` others are pending.

    Lateness is the destination's append time minus the requested due time. CPU is the workers' from the first request
    to the last delivery, the seconds in which only deliveries go on included. `seen` is when a consumer that follows
    the destination has a message, committed ones only.
    """
    fill(here, sizes)
    load = planned(here, sizes)
    with Meter(*here.pids) as meter, Follower(here.bootstrap, here.out) as follower:
        here.send(load)
        here.wait_settled()
        deliveries = here.tally().deliveries(load)
        end = max(delivery.at_ms for delivery in deliveries)
        cpu = meter.cpu_between(load.start_ms, end) / load.count * _PER
    late = spread([delivery.late_ms for delivery in deliveries])
    seen_after = spread([follower.seen_ms[delivery.id] - delivery.due_ms for delivery in deliveries])
    return {**late, **{f"seen_{name}": seen_after[name] for name in _SEEN}, "cpu_s_per_30k": cpu}
