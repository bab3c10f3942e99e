"""Figures: their names and units, and the median of several runs."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Figures = dict[str, dict[str, float]]
"""Values by experiment and figure."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a figure is shown, and which way is better."""

    label: str
    unit: str
    digits: int = 0
    better: Literal["low", "high", ""] = "low"


_LATE = {
    "p50_ms": Kind("lateness, p50", "ms"),
    "p90_ms": Kind("lateness, p90", "ms"),
    "p99_ms": Kind("lateness, p99", "ms"),
    "p999_ms": Kind("lateness, p99.9", "ms"),
    "max_ms": Kind("lateness, maximum", "ms"),
}
_SEEN = {
    "seen_p50_ms": Kind("latency at the consumer, p50", "ms"),
    "seen_p99_ms": Kind("latency at the consumer, p99", "ms"),
    "seen_p999_ms": Kind("latency at the consumer, p99.9", "ms"),
    "cpu_s_per_30k": Kind("worker CPU", "s/30,000", 1),
}
_CPU = {
    "cpu_us": Kind("worker CPU", "µs/message", 1),
    "cpu_loops": Kind("the same, calibrated", "loops/million", 1),
}

_RATES = {
    "ingest_per_s": Kind("ingest until durable", "messages/s", better="high"),
    "ingest_cpu_us": Kind("ingest, worker CPU", "µs/message", 1),
    "drain_per_s": Kind("drain until appended", "messages/s", better="high"),
    "drain_cpu_us": Kind("drain, worker CPU", "µs/message", 1),
}
_RESTORE = {
    "rows_per_s": Kind("empty disk", "rows/s", better="high"),
    "net_rows_per_s": Kind("the same, without the start", "rows/s", better="high"),
    "empty_disk_ready_s": Kind("empty disk, until ready", "s", 1),
    "same_disk_ready_s": Kind("same disk, until ready", "s", 1),
    "same_disk_delivery_s": Kind("same disk, first delivery", "s", 1),
    "kill_delivery_s": Kind("kill -9 to next delivery", "s", 1),
}
_FOOTPRINT = {
    "rss_mib": Kind("worker RSS", "MiB"),
    "peak_mib": Kind("worker RSS, peak", "MiB"),
    "disk_bytes": Kind("disk", "bytes/pending"),
    "pending": Kind("pending", "messages", better=""),
}
_LOOK = {
    "rate": Kind("steady load, in and out", "messages/s", better=""),
    "capacity": Kind("maximum sustained", "messages/s", better="high"),
    "pending": Kind("pending", "messages", better=""),
    "home_p50_ms": Kind("Home, response, p50", "ms", 1),
    "home_p99_ms": Kind("Home, response, p99", "ms", 1),
    "timeline_p50_ms": Kind("timeline, response, p50", "ms", 1),
    "timeline_p99_ms": Kind("timeline, response, p99", "ms", 1),
    "message_p50_ms": Kind("a message by its ID, response, p50", "ms", 1),
    "message_p99_ms": Kind("a message by its ID, response, p99", "ms", 1),
    "find_p50_ms": Kind("Find, a range of all rows, p50", "ms"),
    "find_p99_ms": Kind("Find, a range of all rows, p99", "ms"),
    "found_per_s": Kind("Find, rows scanned", "rows/s", better="high"),
    "late_alone_p50_ms": Kind("lateness without readers, p50", "ms"),
    "late_alone_p99_ms": Kind("lateness without readers, p99", "ms"),
    "late_home_p50_ms": Kind("lateness with Home, p50", "ms"),
    "late_home_p99_ms": Kind("lateness with Home, p99", "ms"),
    "late_find_p50_ms": Kind("lateness with Find, p50", "ms"),
    "late_find_p99_ms": Kind("lateness with Find, p99", "ms"),
    "grown_ms": Kind("lateness without readers, p50, last minus first turn", "ms"),
    "ratio_home": Kind("lateness with Home, p99, relative to without", "", 2),
    "ratio_home_median": Kind("the same, median of the rounds", "", 2),
    "ratio_home_least": Kind("the same, minimum of the rounds", "", 2),
    "ratio_home_most": Kind("the same, maximum of the rounds", "", 2),
    "ratio_find": Kind("lateness with Find, p99, relative to without", "", 2),
    "ratio_find_median": Kind("the same, median of the rounds", "", 2),
    "ratio_find_least": Kind("the same, minimum of the rounds", "", 2),
    "ratio_find_most": Kind("the same, maximum of the rounds", "", 2),
}
_WHOLE = {**_LATE, **_SEEN, **_RATES, "peak_mib": Kind("RSS, peak", "MiB")}

KINDS: Mapping[str, Mapping[str, Kind]] = {
    "lateness": {**_LATE, **_SEEN},
    "ingest": {
        "per_s": Kind("until durable", "messages/s", better="high"),
        "producer_per_s": Kind("load generator", "messages/s", better=""),
        **_CPU,
    },
    "drain": {
        "per_s": Kind("until appended", "messages/s", better="high"),
        **_CPU,
        "late_p99_ms": Kind("lateness, p99", "ms"),
        "peak_mib": Kind("worker RSS, peak", "MiB"),
    },
    "exactly-once": _WHOLE,
    "mixed": {
        **_LATE,
        "due_meanwhile": Kind("due at the same time", "messages", better=""),
        "ingest_per_s": Kind("ingest until committed", "messages/s", better="high"),
    },
    "kill": {
        "kills": Kind("kill -9", "", better=""),
        "twice": Kind("duplicates per kill, median", "messages"),
        "twice_most": Kind("duplicates per kill, maximum", "messages"),
        "drain_per_s": Kind("drain until the kill", "messages/s", better="high"),
    },
    "overload": {
        "alone_per_s": Kind("ingest while nothing is due", "messages/s", better="high"),
        "alone_cpu_us": Kind("CPU of that ingest", "µs/message", 1),
        "ingest_per_s": Kind("ingest while messages are due", "messages/s", better="high"),
        "meanwhile_per_s": Kind("delivered at the same time", "messages/s", better="high"),
        "act_cpu_us": Kind("CPU per message in or out", "µs", 1),
        "late_p50_ms": Kind("lateness, p50", "ms"),
        "lag_p50_ms": Kind("lateness before ingest, p50", "ms"),
        "own_p50_ms": Kind("lateness after ingest, p50", "ms"),
        "own_p99_ms": Kind("lateness after ingest, p99", "ms"),
    },
    "busy-machine": _WHOLE,
    "restore": _RESTORE,
    "footprint": _FOOTPRINT,
    "matrix": {**_LATE, **_SEEN},
    "recovery": {**_RESTORE, **_FOOTPRINT},
    "values": _RATES,
    "workers": _WHOLE,
    "soak": {
        **_LATE,
        "first_mib": Kind("worker RSS, second fifth", "MiB"),
        "last_mib": Kind("worker RSS, last fifth", "MiB"),
        "growth": Kind("growth", "%", 1),
    },
    "look": _LOOK,
    "pipeline": {
        "bulk_per_s": Kind("bulk, Parquet to requests", "rows/s", better="high"),
        "read_per_s": Kind("requests read", "rows/s", better="high"),
        "ledger_per_s": Kind("ledger, Kafka to Parquet", "rows/s", better="high"),
        "reconcile_per_s": Kind("reconcile", "rows/s", better="high"),
        "park_per_s": Kind("park", "rows/s", better="high"),
        "compact_per_s": Kind("park --compact", "rows/s", better="high"),
        "parked_bytes": Kind("parked, on disk", "bytes/message", better="low"),
        "promote_s": Kind("promote an hour of thirty days", "s", 2),
        "nothing_s": Kind("promote, nothing due, the whole command", "s", 2),
        "bulk_ratio": Kind("bulk ÷ plain Parquet to Kafka", "", 2, better="high"),
        "ledger_ratio": Kind("ledger ÷ plain copy", "", 2, better="high"),
        "park_ratio": Kind("park ÷ plain copy", "", 2, better="high"),
        "again_ratio": Kind("reconcile after 1 % new ÷ first", "", 2),
    },
    "streams": _WHOLE,
    "streams-two-threads": _WHOLE,
    "streams-exactly-once": _WHOLE,
    "sorted-set": _WHOLE,
    "etf1": _WHOLE,
    "calibration": {"loop_ms": Kind("CPU of the loop", "ms", 1)},
}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the usual percentiles of values in milliseconds, by rank, without interpolation."""
    ordered = sorted(values)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    shares = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1.0}
    return {name: at(share) for name, share in shares.items()}


def medians(runs: Iterable[Figures]) -> Figures:
    """Return the median of each figure over all runs that have it."""
    values_by_name: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        for group, figures in run.items():
            for name, value in figures.items():
                values_by_name.setdefault(group, {}).setdefault(name, []).append(value)
    return {
        group: {name: statistics.median(values) for name, values in figures.items()}
        for group, figures in values_by_name.items()
    }


def calibrated(figures: Figures, loop_s: float) -> Figures:
    """Add CPU per message in calibration loops: how many loops' CPU a million messages take."""
    return {
        group: {**values, "cpu_loops": values["cpu_us"] / loop_s} if "cpu_us" in values else values
        for group, values in figures.items()
    }


def listed(figures: Figures) -> Iterator[tuple[str, str, Kind, float]]:
    """Go through group, name, kind and value of all figures, in the order of `KINDS`.

    The first word of a group says which kinds it has: there are several of some.
    """
    for first, kinds in KINDS.items():
        for group, values in figures.items():
            if group.split()[0] == first:
                yield from ((group, name, kind, values[name]) for name, kind in kinds.items() if name in values)
