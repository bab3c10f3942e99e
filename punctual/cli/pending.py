"""`punctual pending`: counts pending messages by destination, and shows whether they are on time."""

from typing import Any

from punctual.cli.api import WorkerApi
from punctual.cli.arguments import add_form, add_watch, add_worker
from punctual.cli.errors import Incomplete
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser
from punctual.cli.table import JSON, Column, Table, write_json
from punctual.cli.terminal import say
from punctual.cli.watch import shown
from punctual.durations import duration, moment, relative

_KEPT = (
    *("app_id", "at_ms", "pending", "pending_unnamed", "overdue", "retrying", "next_due_ms", "lateness"),
    *("partitions_expected", "partitions_stale", "partitions_missing", "destinations"),
)


def add_arguments(parser: Parser) -> None:
    """Add the arguments for the output and the worker."""
    add_form(parser)
    add_watch(parser)
    add_worker(parser)


def run(options: Options) -> Exit:
    """Write the counts."""
    with WorkerApi.of(options) as api:
        return shown(options, lambda options: _show(api, options.format))


def _show(api: WorkerApi, form: str) -> Exit:
    overview = api.get("/overview")
    at_ms = overview["at_ms"]
    if form == JSON:
        write_json({name: overview[name] for name in _KEPT if name in overview})
    else:
        columns = (
            Column("DESTINATION", lambda row: row["destination"]),
            Column("PENDING", lambda row: f"{row['pending']:,}", number=True),
            Column(
                "RATE LIMIT", lambda row: "" if row["rate_per_s"] is None else f"{row['rate_per_s']:g}/s", number=True
            ),
            Column("STATE", lambda row: _state(row, at_ms)),
        )
        rows = list(overview["destinations"])
        if overview["pending_unnamed"]:
            rows.append({"destination": "(others)", "pending": overview["pending_unnamed"], **_OTHERS})
        Table(columns).add(rows)
        say(_verdict(overview))
    for name, what in (("partitions_stale", "counted as last reported"), ("partitions_missing", "not counted")):
        if overview[name]:
            say(f"no recent report from partitions {', '.join(map(str, overview[name]))}: {what}")
    if overview["partitions_missing"]:
        raise Incomplete("the count is incomplete: start a worker, or try again when all partitions have reported")
    return Exit.DONE


_OTHERS: dict[str, Any] = dict.fromkeys(("rate_per_s", "paused", "held_since_ms", "held_because", "paced_since_ms"))


def _state(row: dict[str, Any], at_ms: int) -> str:
    if row["paused"] is not None:
        paused = row["paused"]
        by = f" by {paused['by']}" if paused.get("by") else ""
        why = f": {paused['reason']}" if paused.get("reason") else ""
        until = f" until {moment(paused['until_ms'])}" if paused.get("until_ms") else ""
        return f"paused{by}{until}{why}"
    if row["held_since_ms"] is not None:
        why = f": {row['held_because']}" if row["held_because"] else ""
        return f"held for {duration(max(0, at_ms - row['held_since_ms']))}{why}"
    if row["paced_since_ms"] is not None:
        return f"rate-limited, oldest message late by {duration(max(0, at_ms - row['paced_since_ms']))}"
    return ""


def _verdict(overview: dict[str, Any]) -> str:
    following = overview["next_due_ms"]
    soon = "" if following is None else f", next due {relative(following, overview['at_ms'])}"
    overdue = f", {overview['overdue']:,} overdue" if overview["overdue"] else ", none overdue"
    return f"{overview['pending']:,} pending{overdue}{soon}"
