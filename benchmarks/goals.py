"""Minimums and goals for one worker, or one Spark, on two cores shared with the broker and the load generator."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.figures import KINDS, Figures, Kind


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure with its minimum and its goal. Several figures of different groups are added up."""

    label: str
    groups: tuple[str, ...]
    name: str
    minimum: float
    goal: float

    @property
    def kind(self) -> Kind:
        """How the figure is shown."""
        return KINDS[self.groups[0].split()[0]][self.name]

    def of(self, runs: Sequence[Figures]) -> list[float]:
        """Return the figure of each run, without runs that lack it."""
        full = [run for run in runs if all(self.name in run.get(group, {}) for group in self.groups)]
        return [sum(run[group][self.name] for group in self.groups) for run in full]

    def verdict(self, value: float) -> str:
        """Return "goal", "minimum" or "missed"."""
        low = self.kind.better == "low"
        reached = [limit for limit in (self.minimum, self.goal) if (value <= limit if low else value >= limit)]
        return ("missed", "minimum", "goal")[len(reached)]


def _late(group: str, label: str, limits: dict[str, tuple[float, float]]) -> list[Goal]:
    return [Goal(f"{label}, {KINDS[group][name].label}", (group,), name, *both) for name, both in limits.items()]


GOALS: Sequence[Goal] = (
    *_late(
        "lateness",
        "1,000/s with a million pending",
        {"p50_ms": (6, 4), "p99_ms": (50, 15), "p999_ms": (200, 40), "cpu_s_per_30k": (25, 12)},
    ),
    Goal("ingest", ("ingest",), "per_s", 50_000, 100_000),
    Goal("drain", ("drain",), "per_s", 40_000, 90_000),
    Goal("worker CPU, in and out", ("ingest", "drain"), "cpu_us", 45, 25),
    *_late("mixed", "1,000/s while ingest runs at full speed", {"p99_ms": (100, 30)}),
    *_late("exactly-once", "exactly once, 1,000/s", {"seen_p50_ms": (50, 15), "seen_p99_ms": (150, 40)}),
    Goal("restore of a million rows, empty disk", ("restore",), "rows_per_s", 100_000, 300_000),
    Goal("restart on the same disk, first delivery", ("restore",), "same_disk_delivery_s", 10, 3),
    Goal("kill -9 to next delivery", ("restore",), "kill_delivery_s", 6, 2),
    Goal("RSS with ten million pending", ("recovery 10,000,000",), "rss_mib", 600, 300),
    *(
        Goal(f"with ten million pending: {KINDS['look'][name].label}", ("look",), name, minimum, goal)
        for name, minimum, goal in (("home_p99_ms", 100, 50), ("ratio_home", 1.2, 1.1), ("ratio_find", 1.2, 1.1))
    ),
    *(
        Goal(f"pipeline: {KINDS['pipeline'][name].label}", ("pipeline",), name, minimum, goal)
        for name, minimum, goal in (
            ("bulk_per_s", 125_000, 230_000),
            ("read_per_s", 240_000, 340_000),
            ("ledger_per_s", 140_000, 203_000),
            ("reconcile_per_s", 700_000, 1_000_000),
            ("park_per_s", 120_000, 175_000),
            ("promote_s", 1, 0.5),
            ("nothing_s", 0.8, 0.5),
            ("bulk_ratio", 0.5, 0.8),
            ("ledger_ratio", 0.3, 0.6),
            ("park_ratio", 0.3, 0.6),
            ("again_ratio", 0.5, 0.1),
        )
    ),
)
