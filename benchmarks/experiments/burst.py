"""As much as possible at once: how fast requests become durable, how fast they leave, and what both cost."""

from benchmarks.clock import now_ms, sleep_until
from benchmarks.errors import TooSlow
from benchmarks.figures import Figures, spread
from benchmarks.installation import Installation
from benchmarks.meter import Meter
from benchmarks.sizes import Sizes
from benchmarks.target import Target

#: 200,000 due over a second would bound what can be measured by 200,000 a second.
_SPREAD_MS = 100


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Measure a fresh installation as `at_once` does."""
    with Installation(bootstrap, "burst") as here:
        return at_once(here, sizes)


def rates(figures: Figures) -> dict[str, float]:
    """Return what `at_once` found of rates and CPU as figures of one group."""
    return {f"{name}_{figure}": figures[name][figure] for name in ("ingest", "drain") for figure in ("per_s", "cpu_us")}


def at_once(here: Target, sizes: Sizes) -> Figures:
    """Request `burst` messages as fast as they are taken, all due within a tenth of a second, `lead_s` later.

    Ingest counts from the first request to the append of the changelog's last record; the load generator produces in
    parallel. Drain counts from the first due time to the last append at the destination; its CPU is counted until the
    changelog's last record, because a delivery is not over before its removal is durable.

    Raises TooSlow if ingest is not over when the first message falls due.
    """
    with Meter(*here.pids) as meter:
        due = now_ms() + int(sizes.lead_s * 1_000)
        due -= due % here.unit_ms
        load = here.plan("burst", sizes.burst, due, spread_ms=_SPREAD_MS, value_bytes=sizes.value_bytes)
        produced = here.send(load)
        here.wait_taken()
        began, durable = produced.began_ms, here.durable_ms()
        if durable >= due or now_ms() >= due:
            msg = f"Ingest was not over when the messages fell due, after {sizes.lead_s:g} s. Give more with --lead."
            raise TooSlow(msg)
        ingest_cpu = meter.cpu_between(began, durable)
        sleep_until(due + _SPREAD_MS)
        here.wait_settled()
        removed = here.durable_ms()
        drain_cpu = meter.cpu_between(due, removed)
        peak_mib = meter.peak_mib()
    deliveries = here.tally().deliveries(load)
    last = max(delivery.at_ms for delivery in deliveries)
    per_message = 1e6 / load.count
    return {
        "ingest": {
            "per_s": load.count / (durable - began) * 1_000,
            "producer_per_s": load.count / (produced.ended_ms - began) * 1_000,
            "cpu_us": ingest_cpu * per_message,
        },
        "drain": {
            "per_s": load.count / (last - due) * 1_000,
            "cpu_us": drain_cpu * per_message,
            "late_p99_ms": spread([delivery.late_ms for delivery in deliveries])["p99_ms"],
            "peak_mib": peak_mib,
        },
    }
