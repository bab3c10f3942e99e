"""More requests than the worker accepts, while messages fall due: both rates, and the CPU of a message."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks.clock import now_ms
from benchmarks.experiments import beside
from benchmarks.figures import Figures, spread
from benchmarks.meter import Meter
from benchmarks.plan import Plan
from benchmarks.sizes import Sizes
from benchmarks.tally import Delivery
from benchmarks.target import Target


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure Punctual and Kafka Streams as `overloaded` does."""
    return beside.measure("overload", bootstrap, partial(overloaded, sizes=sizes))


def overloaded(install: Callable[[str], Target], sizes: Sizes) -> dict[str, float]:
    """Send `overload` messages far ahead, then as many again, half due during ingest.

    Both are requested as fast as Kafka takes them, so that more are waiting all the time. Due times are spread evenly
    over twice the time that the first took. A message in and a message out are one action each: rates and CPU per
    action are those until the last request was taken.
    """
    with install("overload") as here, Meter(*here.pids) as meter:
        usual_ms, usual_cpu = _ingest(here, here.plan_far("far", sizes.overload, value_bytes=sizes.value_bytes), meter)
        here.wait_settled()
        began = now_ms()
        overload = here.plan("more", sizes.overload, began, spread_ms=int(2 * usual_ms), value_bytes=sizes.value_bytes)
        took_ms, cpu = _ingest(here, overload, meter)
        here.wait_settled()
        deliveries, taken_at = here.tally().deliveries(overload), here.taken_at()
    out = sum(delivery.at_ms < began + took_ms for delivery in deliveries)
    return {
        "alone_per_s": sizes.overload / usual_ms * 1_000,
        "alone_cpu_us": usual_cpu * 1e6 / sizes.overload,
        "ingest_per_s": sizes.overload / took_ms * 1_000,
        "meanwhile_per_s": out / took_ms * 1_000,
        "act_cpu_us": cpu * 1e6 / (sizes.overload + out),
        "late_p50_ms": spread([delivery.late_ms for delivery in deliveries])["p50_ms"],
        **(_apart(deliveries, taken_at) if taken_at else {}),
    }


def _apart(deliveries: Sequence[Delivery], taken_at: Mapping[str, int]) -> dict[str, float]:
    """Return the lateness that messages had when they were accepted, and the part that came later."""
    before = [max(0, taken_at[delivery.id] - delivery.due_ms) for delivery in deliveries]
    after = spread([delivery.late_ms - lag for delivery, lag in zip(deliveries, before, strict=True)])
    return {"lag_p50_ms": spread(before)["p50_ms"], "own_p50_ms": after["p50_ms"], "own_p99_ms": after["p99_ms"]}


def _ingest(here: Target, plan: Plan, meter: Meter) -> tuple[int, float]:
    """Send a plan; return the milliseconds until it was accepted, and the seconds of CPU."""
    with here.sending(plan) as load:
        ended = here.wait_accepted()
        began = load.wait().began_ms
    return ended - began, meter.cpu_between(began, ended)
