"""Punctual compared with other systems: ratios of the figures of one run."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.experiments import baselines
from benchmarks.figures import KINDS, Figures, Kind
from benchmarks.result import Result

#: A system as a whole, Punctual's own among them.
WHOLE = ("exactly-once", *baselines.NAMES)
ONE, TWO = "workers 1", "workers 2"
#: Where at least once is found in results that do not measure it as the others are measured.
_OWN = {
    **{f"ingest_{name}": ("ingest", name) for name in ("per_s", "cpu_us")},
    **{f"drain_{name}": ("drain", name) for name in ("per_s", "cpu_us")},
    "peak_mib": ("drain", "peak_mib"),
}


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure of Punctual's divided by another system's: median, minimum and maximum of all runs."""

    kind: Kind
    median: float
    least: float
    most: float

    @property
    def behind(self) -> bool:
        """Whether Punctual is the worse one, to two digits."""
        median = round(self.median, 2)
        return median < 1 if self.kind.better == "high" else median > 1

    def __str__(self) -> str:
        if f"{self.least:.2f}" == f"{self.most:.2f}":
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({self.least:.2f} … {self.most:.2f})"


@dataclass(frozen=True, slots=True)
class Pair:
    """One group of figures compared with another."""

    label: str
    """The other system, and in which circumstances."""
    own: str
    other: str

    def ratios(self, runs: Sequence[Figures]) -> dict[str, Ratio]:
        """Return the ratios of figures from the same runs, by name."""
        ratios_by_name: dict[str, Ratio] = {}
        for name, kind in KINDS["exactly-once"].items():
            pairs = [(own_value(run, self.own, name), run.get(self.other, {}).get(name, 0)) for run in runs]
            each = [own / other for own, other in pairs if own is not None and other > 0]
            if each and kind.better:
                ratios_by_name[name] = Ratio(kind, statistics.median(each), min(each), max(each))
        return ratios_by_name


PAIRS = (
    Pair("Kafka Streams", ONE, "streams"),
    Pair("Kafka Streams with two threads (Punctual: two processes)", TWO, "streams-two-threads"),
    Pair("Kafka Streams, exactly once", "exactly-once", "streams-exactly-once"),
    Pair("a Redis sorted set", ONE, "sorted-set"),
    Pair("a Redis sorted set (Punctual: exactly once)", "exactly-once", "sorted-set"),
    Pair("etf1's scheduler", ONE, "etf1"),
)


def own_value(figures: Figures, group: str, name: str) -> float | None:
    """Return a figure of a group; of at least once from the experiments that measure its parts, if need be."""
    if group == ONE and ONE not in figures:
        group, name = _OWN.get(name, ("lateness", name))
    return figures.get(group, {}).get(name)


def same_run(results: Mapping[str, tuple[str, Result]]) -> Result | None:
    """Return the newest result that has other systems; None without any."""
    others = sorted((results[name] for name in baselines.NAMES if name in results), key=lambda it: it[1].machine.date)
    return others[-1][1] if others else None


def behind(result: Result, *, brief: bool = False) -> Iterator[str]:
    """Return a list of the figures in which Punctual is slower, one line per system; briefly without the ratios."""
    for pair in PAIRS:
        ratios = pair.ratios(result.runs)
        if ratios:
            worse = [it.kind.label if brief else f"{it.kind.label}: {it}" for it in ratios.values() if it.behind]
            yield f"- Compared with {pair.label}: {'; '.join(worse) or 'nothing'}."


def ratios(result: Result) -> Iterator[Sequence[str]]:
    """Return the rows of a table of all ratios, its head first, with the ratios of slower figures in bold."""
    ratios_by_pair = {pair.label: ratios_by_name for pair in PAIRS if (ratios_by_name := pair.ratios(result.runs))}
    if ratios_by_pair:
        yield ["Punctual ÷", *ratios_by_pair]
        for name, kind in KINDS["exactly-once"].items():
            cells = [ratios_by_name.get(name) for ratios_by_name in ratios_by_pair.values()]
            yield [kind.label, *("" if it is None else f"**{it}**" if it.behind else f"{it}" for it in cells)]
