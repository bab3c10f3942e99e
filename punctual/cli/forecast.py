"""`punctual forecast`: counts messages by due time."""

from typing import Any, Final

from punctual.cli.api import WorkerApi, missing
from punctual.cli.arguments import add_form, add_watch, add_worker
from punctual.cli.errors import WrongUse
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser
from punctual.cli.table import JSON, Column, Table, write_json
from punctual.cli.terminal import say
from punctual.cli.times import moment_ms, span, written
from punctual.cli.watch import shown

_BAR: Final = 30
_ROWS: Final = 3


def add_arguments(parser: Parser) -> None:
    """Add the arguments for a time range and its steps; without them, the range is all messages."""
    about = "start at: RFC 3339, epoch milliseconds, now, or from now: 15m, 2h, 1d (default: with overdue messages)"
    parser.add_argument("--from", dest="since", type=moment_ms, metavar="TIME", help=about)
    parser.add_argument("--until", type=moment_ms, metavar="TIME", help="end before this time; required with --from")
    parser.add_argument("--step", type=span, metavar="SPAN", help="size of a step: 1s, 15m, 1h (default: a round size)")
    add_form(parser)
    add_watch(parser)
    add_worker(parser)


def run(options: Options) -> Exit:
    """Write the counts."""
    if (options.since is None) != (options.until is None):
        raise WrongUse("give both --from and --until, or neither for all messages")
    if options.step is not None and options.since is None:
        raise WrongUse("--step needs --from and --until")
    with WorkerApi.of(options) as api:
        return shown(options, lambda options: _show(api, options))


def _show(api: WorkerApi, options: Options) -> Exit:
    step = None if options.step is None else round(options.step.total_seconds() * 1_000)
    timeline = api.get("/timeline", {"from": options.since, "to": options.until, "step": step})
    if options.format == JSON:
        write_json(timeline)
    else:
        _write_table(timeline)
    lacks = missing(timeline)
    if lacks is not None:
        raise lacks
    return Exit.DONE


def _write_table(timeline: dict[str, Any]) -> None:
    buckets = timeline["buckets"]
    most = max((bucket["total"] for bucket in buckets), default=0) or 1
    columns = (
        Column("FROM", lambda bucket: written(bucket["from_ms"])),
        Column("UNTIL", lambda bucket: _end(bucket["to_ms"])),
        Column("DUE", lambda bucket: f"{'' if bucket['exact'] else '≥ '}{bucket['total']:,}", number=True),
        Column("", lambda bucket: "▇" * -(-bucket["total"] * _BAR // most)),
        Column("MOST TO", lambda bucket: _largest(bucket["by"])),
    )
    Table(columns).add(buckets)
    total = sum(bucket["total"] for bucket in buckets)
    least = "" if all(bucket["exact"] for bucket in buckets) else "min "
    say(f"{least}{total:,} due, {timeline['overdue']:,} overdue")


def _end(to_ms: int) -> str:
    text = written(to_ms)
    return "" if text.isdecimal() else text  # the last step has no end


def _largest(by: dict[str, int]) -> str:
    names = sorted(by, key=lambda name: -by[name])
    more = f" and {len(names) - _ROWS} more" if len(names) > _ROWS else ""
    return ", ".join(names[:_ROWS]) + more
