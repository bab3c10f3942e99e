"""A result as people read it."""

from collections.abc import Collection, Sequence

from benchmarks.figures import Kind, listed
from benchmarks.result import Result


def formatted(value: float, kind: Kind) -> str:
    """Return a figure with its digits, thousands apart."""
    return f"{value:,.{kind.digits}f}"


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> str:
    """Return rows in columns; those in `right` are aligned to the right. A repeated first cell is left out."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines, group = [], ""
    for first, *rest in rows:
        cells = ["" if first == group else first, *rest]
        group = first
        padded = (
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def table(result: Result) -> str:
    """Return all figures of a result; with several runs the medians, with minimum and maximum."""
    rows = []
    for group, name, kind, value in listed(result.figures):
        every = [run[group][name] for run in result.runs if name in run.get(group, {})]
        between = f"{formatted(min(every), kind)} … {formatted(max(every), kind)}" if len(every) > 1 else ""
        rows.append((group, kind.label, formatted(value, kind), kind.unit, between))
    return aligned(rows, right=(2,))


def heading(result: Result) -> str:
    """Return one line with the date, the commit, the form and the machine."""
    machine, sizes = result.machine, result.sizes
    commit = f"commit {machine.commit}, " if machine.commit else ""
    path = f", native extension {result.kernel}" if result.kernel else ""
    return (
        f"{machine.date}, {commit}{sizes.name} form, {len(result.runs)} run{'s' * (len(result.runs) > 1)}; "
        f"{machine.cores} cores, Kafka {machine.kafka}, {machine.python}{path}"
    )
