"""Renders the parts of the page. Every text that comes from elsewhere is escaped here, where it enters the HTML."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final
from urllib.parse import urlencode

from app.route import described
from app.web import wording
from app.web.overview import Destination, Overview, Partition, Queue, Worker
from app.web.state import Recovery

# A page of more rows is of no use to a reader and costs the worker milliseconds; the JSON has them all.
DESTINATIONS_SHOWN: Final = 200
FILTER_FROM: Final = 10
USUAL_AGE_MS: Final = 3_000
_WHY_IS_ELSEWHERE: Final = "the log of the worker that has them says it"


def moment(at_ms: int) -> str:
    """Return a moment as it is read by people and machines."""
    text = wording.absolute(at_ms)
    stamp = text.replace(" UTC", "Z").replace(" ", "T")
    return f'<time datetime="{stamp}">{text}</time>' if text.endswith("UTC") else text


def notices(overview: Overview) -> str:
    """Return what needs attention, announced politely to screen readers; an empty region when all is well."""
    found = [*_silent(overview), *_held(overview), *_broken(overview)]
    items = "".join(f"<li>{text}</li>" for text in found)
    return f'<div class="notices" role="status">{f"<ul>{items}</ul>" if items else ""}</div>'


def _silent(overview: Overview) -> Iterable[str]:
    missing, stale = overview.partitions_missing, overview.partitions_stale
    if missing:
        it = "them" if len(missing) > 1 else "it"
        yield f"No report yet from {_partitions(missing)}: no worker has taken {it} so far."
    if stale:
        left = "its messages wait until a worker takes it over"
        if len(stale) > 1:
            left = "their messages wait until a worker takes them over"
        yield f"No report lately from {_partitions(stale)}: {left}."


def _held(overview: Overview) -> Iterable[str]:
    for held in overview.destinations:
        if held.held_since_ms is not None:
            since = wording.relative(held.held_since_ms, overview.at_ms)
            name, why = escape(described(held.destination)), escape(held.held_because or _WHY_IS_ELSEWHERE)
            yield f"<b>{name}</b> does not take messages: the oldest one was due {since}. Why: {why}."


def _broken(overview: Overview) -> Iterable[str]:
    for queue in overview.queues:
        if queue.breakers_open:
            of = f"{queue.breakers_open} of {wording.counted(queue.consumers, 'consumer')}"
            name, group = escape(queue.topic), escape(queue.group)
            yield f"<b>{group}</b> fails on the queue {name}: the circuit breaker of {of} lets only a probe pass."


def _partitions(numbers: list[int]) -> str:
    return f"partition{'s' if len(numbers) > 1 else ''} {wording.partitions(numbers)}"


def figures(overview: Overview) -> str:
    """Return the numbers to read at a glance."""
    late = overview.lateness
    due_ms = overview.next_due_ms
    reporting = overview.partitions_expected - len(overview.partitions_missing) - len(overview.partitions_stale)
    cards = [
        _card("Pending", wording.number(overview.pending), "messages that wait for their time"),
        _card("Overdue", wording.number(overview.overdue), "due for over a second", warn=overview.overdue > 0),
        _card(
            "Next due",
            wording.DASH if due_ms is None else wording.relative(due_ms, overview.at_ms),
            "nothing is pending" if due_ms is None else moment(due_ms),
        ),
        _card("Lateness, p50", wording.percentile(late, late.p50_ms), _delivered(late.count)),
        _card("Lateness, p99", wording.percentile(late, late.p99_ms), _delivered(late.count)),
        _card(
            "Partitions",
            f"{reporting} of {overview.partitions_expected}",
            f"reporting, on {wording.counted(sum(not worker.stale for worker in overview.workers), 'worker')}",
            warn=reporting < overview.partitions_expected,
        ),
    ]
    return f'<dl class="figures">{"".join(cards)}</dl>'


def _delivered(count: int) -> str:
    return f"of {wording.number(count)} delivered in the last minute" if count else "none delivered in the last minute"


def _card(name: str, value: str, note: str, *, warn: bool = False) -> str:
    mark = ' class="warn"' if warn else ""
    return f'<div{mark}><dt>{name}</dt><dd>{value}</dd><dd class="note">{note}</dd></div>'


def destinations(overview: Overview, wanted: str, order: str) -> str:
    """Return the pending messages of each destination whose name contains `wanted`."""
    rows = [row for row in overview.destinations if wanted.lower() in row.destination.lower()]
    if order == "name":
        rows.sort(key=lambda row: row.destination)
    shown = rows[:DESTINATIONS_SHOWN]
    most = max((row.pending for row in overview.destinations), default=0)
    heads = [
        _sortable("Destination", "name", order, wanted),
        _sortable("Pending", "pending", order, wanted, number=True),
        '<th scope="col" class="share"><span class="unseen">Share of the largest</span></th>',
        '<th scope="col">Cap</th>',
        '<th scope="col">Waits since</th>',
    ]
    body = "".join(_destination(row, most, overview.at_ms) for row in shown)
    if not body:
        text = "No destination has this in its name." if wanted else "Nothing is pending."
        body = f'<tr><td colspan="5" class="empty">{text}</td></tr>'
    table = _table(heads, body)
    search = _filter(wanted, order) if wanted or len(overview.destinations) >= FILTER_FROM else ""
    notes = f"{_rest(len(rows) - len(shown))}{_unnamed(overview.pending_unnamed)}"
    return _section("Destinations", f"{table}{notes}", search)


def _rest(count: int) -> str:
    more = f'{wording.number(count)} more are in <a href="/api/v1/destinations">/api/v1/destinations</a>.'
    return f'<p class="note">{more}</p>' if count else ""


def _unnamed(count: int) -> str:
    if not count:
        return ""
    wait = wording.counted(count, "message")
    return f"""<p class="note">{wait} more for smaller destinations, which reports sum up: their workers
list them at /api/v1/partitions/<i>number</i>/destinations.</p>"""


def _filter(wanted: str, order: str) -> str:
    return f"""<form class="filter" role="search">
<label for="destination">Name contains</label>
<input id="destination" name="destination" type="search" value="{escape(wanted)}" autocomplete="off">
<input type="hidden" name="sort" value="{escape(order)}"><button>Filter</button>
</form>"""


def _sortable(name: str, by: str, order: str, wanted: str, *, number: bool = False) -> str:
    kind = ' class="number"' if number else ""
    if by == order:
        direction = "ascending" if by == "name" else "descending"
        return f'<th scope="col"{kind} aria-sort="{direction}">{name}</th>'
    query = urlencode({"sort": by} | ({"destination": wanted} if wanted else {}))
    return f'<th scope="col"{kind}><a href="?{escape(query)}" title="Sort by {name.lower()}">{name}</a></th>'


def _destination(row: Destination, most: int, now_ms: int) -> str:
    mark = ' class="warn"' if row.held_since_ms is not None else ""
    cap = wording.DASH if row.rate_per_s is None else f"{row.rate_per_s:g}/s"
    if row.burst:
        cap += f" burst {row.burst}"
    return f"""<tr{mark}><th scope="row">{escape(described(row.destination))}</th>
<td class="number">{wording.number(row.pending)}</td>
<td class="share">{_bar(row.pending, most)}</td><td>{cap}</td><td>{_waits(row, now_ms)}</td></tr>"""


def _waits(row: Destination, now_ms: int) -> str:
    """Return since when messages wait for a destination, and what for."""
    told = []
    if row.held_since_ms is not None:
        told.append(_when(row.held_since_ms, now_ms))
    if row.paused is not None:
        since = "" if row.paused.since_ms is None else f", {_when(row.paused.since_ms, now_ms)}"
        until = "" if row.paused.until_ms is None else f" until {moment(row.paused.until_ms)}"
        by = f" ({escape(row.paused.by)})" if row.paused.by else ""
        why = f": {escape(row.paused.reason)}" if row.paused.reason else ""
        told.append(f"paused{until}{why}{by}{since}")
    if row.paced_since_ms is not None:
        told.append(f"paced, {_when(row.paced_since_ms, now_ms)}")
    return "<br>".join(told) or wording.DASH


def _bar(part: int, whole: int) -> str:
    # An SVG and not a styled element: the content security policy allows no style attributes.
    width = round(100 * part / whole, 1) if whole else 0
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width}" height="8"/></svg>'
    )


def _when(at_ms: int, now_ms: int) -> str:
    return f'{wording.relative(at_ms, now_ms)} <span class="note">{moment(at_ms)}</span>'


def queues(overview: Overview) -> str:
    """Return the acknowledged queues; nothing where none has reported."""
    if not overview.queues:
        return ""
    counts = ("Consumers", "Handed out", "Acknowledged", "Failed", "Timed out", "Given up")
    heads = [*_heads("Queue", "Group"), *(_head(name, number=True) for name in counts), _head("Circuit breaker")]
    return _section("Queues", _table(heads, "".join(map(_queue, overview.queues))))


def _queue(row: Queue) -> str:
    mark = ' class="warn"' if row.breakers_open else ""
    breaker = "closed"
    if row.breakers_open:
        breaker = f"open, {wording.counted(row.probes, 'probe')} so far"
    counts = (row.consumers, row.unacked, row.acked, row.nacked, row.expired, row.exhausted)
    cells = "".join(f'<td class="number">{wording.number(count)}</td>' for count in counts)
    return f"""<tr{mark}><th scope="row">{escape(row.topic)}</th><td>{escape(row.group)}</td>
{cells}<td>{breaker}</td></tr>"""


def workers(overview: Overview) -> str:
    """Return who owns which partitions."""
    heads = [*_heads("Worker", "Partitions"), _head("Pending", number=True), *_heads("Version", "Last report")]
    body = "".join(_worker(row) for row in overview.workers)
    body = body or '<tr><td colspan="5" class="empty">No worker has reported yet.</td></tr>'
    return _section("Workers", _table(heads, body))


def _worker(row: Worker) -> str:
    mark = ' class="warn"' if row.stale else ""
    return f"""<tr{mark}><th scope="row">{_link(row.worker)}</th><td>{wording.partitions(row.partitions)}</td>
<td class="number">{wording.number(row.pending)}</td><td>{escape(row.version)}</td><td>{_age(row.age_ms)}</td></tr>"""


def _link(url: str) -> str:
    text = escape(url)
    return f'<a href="{text}">{text}</a>' if url.startswith(("http://", "https://")) else text


def _age(age_ms: int | None) -> str:
    # Written every second and read every second: up to three are normal, and would only flicker.
    if age_ms is None:
        return wording.DASH
    return "now" if age_ms < USUAL_AGE_MS else wording.relative(0, age_ms)


def partitions(overview: Overview) -> str:
    """Return what is known of every partition."""
    heads = [
        *(_head(name, number=True) for name in ("Partition", "Pending", "Overdue")),
        *_heads("Next due", "Read up to", "Worker", "Last report"),
    ]
    body = "".join(_partition(row, overview.at_ms) for row in overview.partitions)
    return _section("Partitions", _table(heads, body))


def _partition(row: Partition, now_ms: int) -> str:
    mark = "" if row.state == "reporting" else ' class="warn"'
    if row.state == "missing":
        gone = '<td colspan="6" class="empty">no report yet</td>'
        return f'<tr{mark}><th scope="row" class="number">{row.partition}</th>{gone}</tr>'
    due = wording.DASH if row.next_due_ms is None else wording.relative(row.next_due_ms, now_ms)
    positions = ", ".join(f"{escape(topic)} {offset}" for topic, offset in sorted((row.positions or {}).items()))
    return f"""<tr{mark}><th scope="row" class="number">{row.partition}</th>
<td class="number">{wording.number(row.pending or 0)}</td><td class="number">{wording.number(row.overdue or 0)}</td>
<td>{due}</td><td>{positions or wording.DASH}</td><td>{escape(row.worker or "")}</td>
<td>{_age(row.age_ms)}</td></tr>"""


def recovering(reason: str, recovery: Sequence[Recovery]) -> str:
    """Return why the worker is not ready, and how far each restore is."""
    heads = [
        _head("Partition", number=True),
        _head("Progress"),
        *(_head(name, number=True) for name in ("Restored", "Of", "Rows a second", "Time left")),
    ]
    table = _table(heads, "".join(_restore(row) for row in recovery)) if recovery else ""
    text = f"""<p role="status">{escape(reason[:1].upper() + reason[1:])}.</p>
<p class="note">Numbers appear here by themselves as soon as this worker is ready. No message is lost meanwhile.</p>"""
    return _section("Recovering", f"{text}{table}")


def _restore(row: Recovery) -> str:
    number, done, total = row["partition"], row["done"], row["total"]
    rate, left = row["rows_per_s"], row["seconds_left"]
    return f"""<tr><th scope="row" class="number">{number}</th>
<td><progress aria-label="Partition {number}" max="{max(total, 1)}" value="{done}"></progress></td>
<td class="number">{wording.number(done)}</td><td class="number">{wording.number(total)}</td>
<td class="number">{wording.DASH if rate is None else wording.number(round(rate))}</td>
<td class="number">{wording.DASH if left is None else wording.duration(round(left) * wording.SECOND_MS)}</td></tr>"""


def _heads(*names: str) -> list[str]:
    return [_head(name) for name in names]


def _head(name: str, *, number: bool = False) -> str:
    return f'<th scope="col"{" class=number" if number else ""}>{name}</th>'


def _section(name: str, content: str, tools: str = "") -> str:
    # The scrolling part can be focused, so that the keyboard reaches what a narrow window cuts off.
    label = f'aria-labelledby="{name.lower()}"'
    return f"""<section {label}><div class="head"><h2 id="{name.lower()}">{name}</h2>{tools}</div>
<div class="scroll" tabindex="0" role="group" {label}>{content}</div></section>"""


def _table(heads: Sequence[str], body: str) -> str:
    return f"""<table>
<thead><tr>{"".join(heads)}</tr></thead>
<tbody>{body}</tbody>
</table>"""
