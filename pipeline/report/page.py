"""The report as one HTML file without external resources, and as a picture."""

import html
import io
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from pipeline.ledger.lateness import percentile
from pipeline.report.charts import CHARTS, FAINT, INK, brief, dressed, lasting, there
from pipeline.report.findings import DESTINATIONS, Findings
from punctual.cli.terminal import legible_lines

_STYLE = """
:root{color-scheme:light}
*{box-sizing:border-box}
body{margin:0;background:#f5f7fa;color:#1f2933;font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 24px 48px}
h1{font-size:26px;margin:0}h2{font-size:16px;margin:0}
p.note{color:#616e7c;margin:2px 0 12px;font-size:13px}
.verdict{border-radius:10px;padding:14px 18px;margin:20px 0;font-weight:600;background:#e3f5ec;color:#14532d}
.verdict.wrong{background:#fde8e6;color:#7d1a14}.verdict ul{margin:6px 0 0;padding-left:20px;font-weight:400}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:14px;margin-bottom:16px}
.tile,.card{background:#fff;border:1px solid #e4e7eb;border-radius:10px;padding:14px 18px}
.tile b{display:block;font-size:26px;line-height:1.25;font-weight:650;font-variant-numeric:tabular-nums}
.tile span{color:#616e7c;font-size:13px}
.tile.bad b{color:#c4302b}
.cards{display:grid;grid-template-columns:1fr 1fr;gap:16px}.card{min-width:0}.wide{grid-column:1/-1}
.card svg{display:block;width:100%;height:auto}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th{color:#616e7c;font-weight:600}th,td{text-align:right;padding:6px 8px;border-bottom:1px solid #e4e7eb}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}.none{color:#9aa5b1}
@media(max-width:760px){.cards{grid-template-columns:1fr}.tiles{grid-template-columns:1fr 1fr}}
@media print{body{background:#fff}.card,.tile{break-inside:avoid}}
"""
_COLUMNS = ("accepted", "delivered", "pending", "cancelled", "replaced", "dropped", "rejected", "parked", "rescued")
#: Sizes of charts (inches at 100 dpi) for the whole width of the page, and for half the width.
_WIDE, _HALF = (10.6, 3.2), (5.1, 3.4)


def page(findings: Findings) -> str:
    """Return the page as HTML."""
    title = html.escape(f"Punctual: {findings.title.split(' on cluster ')[0]}")
    cards = "".join(_card(findings, number) for number in range(len(CHARTS)))
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head><body><main>'
        f'<h1>{title}</h1><p class="note">{html.escape(findings.title)}; the ledger as of {_moment(findings.at_ms)}</p>'
        f'{_verdict(findings)}<div class="tiles">{"".join(map(_tile, tiles(findings)))}</div>'
        f'<div class="cards">{cards}{_table(findings)}</div></main></body></html>\n'
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


def _verdict(findings: Findings) -> str:
    faults = findings.verdict.faults()
    if not faults:
        return '<div class="verdict">Every accepted message is accounted for: it has ended or is pending.</div>'
    listed = "".join(f"<li>{html.escape(fault)}</li>" for fault in faults)
    return f'<div class="verdict wrong">Not every accepted message is accounted for.<ul>{listed}</ul></div>'


def _tile(tile: tuple[str, str, bool]) -> str:
    value, name, bad = tile
    return f'<div class="tile{" bad" if bad else ""}"><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>'


def _card(findings: Findings, number: int) -> str:
    heading, description, wide, draw = CHARTS[number]
    drawn = _svg(findings, number) if there(findings, draw) else '<p class="none">Nothing yet.</p>'
    about = f'<h2>{html.escape(heading)}</h2><p class="note">{html.escape(description)}</p>'
    return f'<section class="card{" wide" if wide == 2 else ""}">{about}{drawn}</section>'  # noqa: PLR2004 - of two


def _svg(findings: Findings, number: int) -> str:
    """Return a chart as inline SVG, with text as text, and with salted ids because the page has several charts."""
    heading, _, wide, draw = CHARTS[number]
    settings: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": heading, "font.family": "sans-serif"}
    with mpl.rc_context(settings):
        figure = Figure(figsize=_WIDE if wide == 2 else _HALF, layout="constrained")  # noqa: PLR2004 - of two columns
        draw(dressed(figure.add_subplot()), findings)
        figure.patch.set_alpha(0)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    return svg[svg.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{html.escape(heading)}" ', 1)


def _table(findings: Findings) -> str:
    """Return the account by destination as HTML."""
    totals: dict[str, Counter[str]] = {}
    names = [*_COLUMNS, "missing", "duplicates"]
    for row in findings.verdict.rows:
        if row["to"] is not None:
            totals.setdefault(row["to"], Counter()).update({name: row[name] for name in names})
    by_count = sorted(totals, key=lambda to: -totals[to]["accepted"])
    rows = [(to, totals[to]) for to in by_count[: 2 * DESTINATIONS]]
    if len(by_count) > len(rows):
        others = sum((totals[to] for to in by_count[len(rows) :]), Counter[str]())
        rows.append((f"{len(by_count) - len(rows)} others", others))
    rows.append(("all", sum(totals.values(), Counter[str]())))
    head = "".join(f"<th>{name}</th>" for name in ("destination", *names))
    lines = "".join(
        f"<tr><td>{html.escape(to)}</td>"
        + "".join(f"<td{'' if each[name] else ' class=none'}>{each[name]:,}</td>" for name in names)
        + "</tr>"
        for to, each in rows
    )
    return (
        '<section class="card wide"><h2>Messages by destination</h2><p class="note">accepted = the endings + pending'
        f' + missing</p><div class="scroll"><table><tr>{head}</tr>{lines}</table></div></section>'
    )


def _moment(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%-d %B %Y, %H:%M:%S} UTC"
