"""The report as one HTML file without external resources, and as a picture."""

import html
import io
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

import jinja2
import matplotlib as mpl
from matplotlib.figure import Figure

from pipeline.ledger.lateness import percentile
from pipeline.report.charts import CHARTS, FAINT, INK, brief, dressed, lasting, there
from pipeline.report.findings import DESTINATIONS, Findings
from punctual.cli.terminal import legible_lines

_COLUMNS = ("accepted", "delivered", "pending", "cancelled", "replaced", "dropped", "rejected", "parked", "rescued")
#: Sizes of charts (inches at 100 dpi) for the whole width of the page, and for half the width.
_WIDE, _HALF = (10.6, 3.2), (5.1, 3.4)


def page(findings: Findings) -> str:
    """Return the page as HTML."""
    loader, undefined = jinja2.PackageLoader("pipeline.report", "."), jinja2.StrictUndefined
    templates = jinja2.Environment(loader=loader, undefined=undefined, autoescape=True, trim_blocks=True)
    columns = [*_COLUMNS, "missing", "duplicates"]
    text = templates.get_template("page.html").render(
        title=f"Punctual: {findings.title.split(' on cluster ')[0]}",
        installation=findings.title,
        faults=findings.verdict.faults(),
        at=f"{datetime.fromtimestamp(findings.at_ms / 1000, UTC):%-d %B %Y, %H:%M:%S} UTC",
        tiles=tiles(findings),
        charts=[
            (heading, description, wide, _svg(findings, number) if there(findings, draw) else "")
            for number, (heading, description, wide, draw) in enumerate(CHARTS)
        ],
        columns=columns,
        rows=_rows_of(findings, columns),
    )
    return legible_lines(text)  # destinations are untrusted text


def tiles(findings: Findings) -> list[tuple[str, str, bool]]:
    """Return the tiles of the headline: the number as text, its label, and whether it reports a problem."""
    totals, late = findings.verdict.totals, _all(findings)
    numbers = [(name, totals[name], name == "missing") for name in (*_COLUMNS[:3], "missing")]
    rows = [(brief(number), name, bad and number > 0) for name, number, bad in numbers]
    rows.append((brief(findings.verdict.late), "overdue, not lost", findings.verdict.late > 0))
    rows.append((brief(totals["duplicates"]), "delivered twice", totals["duplicates"] > 0))
    half, most = percentile(late, 0.5), percentile(late, 0.99)
    if half is not None and most is not None:
        rows += [(lasting(half), "median lateness", False), (lasting(most), "lateness, p99", False)]
    return rows


@mpl.rc_context({"text.parse_math": False})  # a destination may have dollar signs
def picture(findings: Findings) -> bytes:
    """Return the headline numbers and charts as PNG."""
    charts = [chart for chart in CHARTS if there(findings, chart[3])]
    rows = _rows([wide for _, _, wide, _ in charts])
    height = 1.6 + 3.9 * (max(rows, default=-1) + 1)
    figure = Figure(figsize=(12, height), dpi=130, facecolor="white", layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.6, max(height - 1.6, 0.1)])
    top, below = parts
    top.text(0.02, 0.72, f"Punctual: {findings.title}", fontsize=16, fontweight="bold", color=INK)
    headline = tiles(findings)
    for number, (value, name, bad) in enumerate(headline):
        left = 0.02 + 0.97 * number / len(headline)
        top.text(left, 0.28, value, fontsize=18, fontweight="bold", color="#c4302b" if bad else INK)
        top.text(left, 0.08, name, fontsize=9, color=FAINT)
    grid = below.add_gridspec(max(rows, default=0) + 1, 2)
    columns_used: Counter[int] = Counter()
    for (heading, _, wide, draw), row in zip(charts, rows, strict=True):
        cell = grid[row, :] if wide == 2 else grid[row, columns_used[row]]  # noqa: PLR2004 - of two columns
        columns_used[row] += wide
        axes = dressed(below.add_subplot(cell))
        draw(axes, findings)
        axes.set_title(heading, loc="left", fontsize=12, fontweight="bold", color=INK, pad=28)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def _rows(widths: list[int]) -> list[int]:
    """Return each chart's row on a page of two columns."""
    rows, row, columns_used = [], 0, 0
    for wide in widths:
        if columns_used + wide > 2:  # noqa: PLR2004 - of two columns
            row, columns_used = row + 1, 0
        rows.append(row)
        columns_used += wide
    return rows


def _all(findings: Findings) -> Counter[int]:
    total: Counter[int] = Counter()
    for counts in findings.late.columns.values():
        total.update(counts)
    return total


def _svg(findings: Findings, number: int) -> str:
    """Return a chart as inline SVG, with text as text, and with salted ids because the page has several charts."""
    heading, _, wide, draw = CHARTS[number]
    settings: dict[str, Any] = {
        "svg.fonttype": "none",
        "text.parse_math": False,
        "svg.hashsalt": heading,
        "font.family": "sans-serif",
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=_WIDE if wide == 2 else _HALF, layout="constrained")  # noqa: PLR2004 - of two columns
        draw(dressed(figure.add_subplot()), findings)
        figure.patch.set_alpha(0)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    return svg[svg.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{html.escape(heading)}" ', 1)


def _rows_of(findings: Findings, columns: list[str]) -> list[tuple[str, Counter[str]]]:
    """Return the counts of the largest destinations, of the others together, and of all."""
    totals = defaultdict[str, Counter[str]](Counter)
    for row in findings.verdict.rows:
        if row["to"] is not None:
            totals[row["to"]].update({name: row[name] for name in columns})
    by_count = sorted(totals, key=lambda to: -totals[to]["accepted"])
    rows = [(to, totals[to]) for to in by_count[: 2 * DESTINATIONS]]
    if len(by_count) > len(rows):
        others = sum((totals[to] for to in by_count[len(rows) :]), Counter[str]())
        rows.append((f"{len(by_count) - len(rows)} others", others))
    return [*rows, ("all", sum(totals.values(), Counter[str]()))]
