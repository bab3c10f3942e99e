"""Check that every accepted message is accounted for: it has ended or is pending."""

import argparse
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import Row

from pipeline.context import JobContext
from pipeline.errors import OptionInvalid
from pipeline.hadoop import Output
from pipeline.jobs import ledger
from pipeline.jobs.ledger import add_ledger, keep, namespaces_of
from pipeline.lake import Lake, require_tables
from pipeline.ledger import KIND
from pipeline.persisted import persisted
from pipeline.progress import progress
from pipeline.reconcile.account import COUNTS, GROUPS
from pipeline.reconcile.destinations import DEVIATION, KINDS, deviations
from pipeline.reconcile.lost import LOST, Judge
from pipeline.reconcile.verdict import Verdict
from punctual.contract.times import parse_duration, parse_time

#: The exit code of an account that does not balance.
UNBALANCED = 3
_LISTED = 20
TOPICS = ledger.TOPICS
AGAIN = "Uncommitted work of the ledger does not count. Run the same command again."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `reconcile`."""
    add_judged(parser)
    add_as_of(parser)
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="only messages accepted since: a date, RFC 3339, or a duration before now, such as P7D",
    )
    parser.add_argument(
        "--destination",
        action="append",
        default=[],
        metavar="TOPIC",
        help="also compare the deliveries with the records of this topic; repeat it for more",
    )
    parser.add_argument("--out", metavar="DIR", help="also write account.csv and missing.csv to DIR")


def add_judged(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that looks for lost messages."""
    add_ledger(parser)
    parser.add_argument("--as-is", action="store_true", help="check the ledger without updating it first")
    parser.add_argument(
        "--grace",
        default="PT1M",
        help="count a message as lost if workers are this far past its due time (default: %(default)s)",
    )


def add_as_of(parser: argparse.ArgumentParser) -> None:
    """Add the option of commands that can use an earlier version of the ledger."""
    parser.add_argument(
        "--as-of",
        metavar="TIME",
        help="check the ledger as it was at this time, without updating it: a date, RFC 3339, or a duration before now",
    )


def run(context: JobContext, options: argparse.Namespace) -> int:
    """Reconcile the ledger and print the verdict; return 0 if the account balances, otherwise 3."""
    now_ms = time.time_ns() // 1_000_000
    since_ms = moment(options.since, now_ms) if options.since else 0
    if options.out:
        Output(context.spark, options.out)
    namespaces = namespaces_of(options)
    lake = opened(context, options)
    with progress(context.spark, "reconcile"):
        judge = Judge(lake, duration(options.grace), since_ms)
        verdict = Verdict.of(judge, now_ms, namespaces, rolls_up=_updates(options))
    if options.out:
        _write(lake, options.out, verdict)
    _tell(verdict)
    context.summary.count(
        **{name: verdict.totals[name] for name in COUNTS}, late=verdict.late, unknown=verdict.unknown.total()
    )
    context.summary.nothing = False  # a run without new records has a verdict too
    matches = [_matches(context, lake, topic, since_ms) for topic in options.destination]
    return 0 if verdict.balanced and all(matches) else UNBALANCED


def _matches(context: JobContext, lake: Lake, topic: str, since_ms: int) -> bool:
    """Compare the deliveries with the records of a destination; print deviations, and return whether there are none."""
    with persisted(deviations(context, lake, topic, since_ms)) as deviating, progress(context.spark, topic):
        counts = {row["kind"]: row["count"] for row in deviating.groupBy("kind").count().collect()}
        rows = deviating.orderBy(*DEVIATION).limit(_LISTED).collect()
    context.summary.count(**{f"{topic}-{kind}": counts.get(kind, 0) for kind in KINDS})
    counted = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS if kind in counts)
    print(f"{topic}: {counted or 'each delivery is there once, and nothing else'}.")
    _list(f"deviations of {topic}", DEVIATION, rows, sum(counts.values()))
    return not counts


def opened(context: JobContext, options: argparse.Namespace) -> Lake:
    """Return the ledger, updated unless `--as-is` or `--as-of` is given. Raises OptionInvalid if there is no ledger."""
    if _updates(options):
        return keep(context, options)
    as_of: str | None = getattr(options, "as_of", None)
    now_ms = time.time_ns() // 1_000_000
    lake = context.lake(options.ledger, KIND, None if as_of is None else moment(as_of, now_ms, "--as-of"))
    require_tables(lake.head, options.ledger, "ledger")
    return lake


def _updates(options: argparse.Namespace) -> bool:
    """Return whether a command may write to the ledger; not all commands have the option `--as-of`."""
    return not options.as_is and getattr(options, "as_of", None) is None


def duration(text: str) -> int:
    """Return a duration in milliseconds. Raises OptionInvalid."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise OptionInvalid(f"{error}.") from error


def moment(text: str, now_ms: int, option: str = "--since") -> int:
    """Return the time (epoch ms) of a time, a date, or a duration before now. Raises OptionInvalid."""
    try:
        if "P" in text or text[-1:] in ("d", "h", "m", "s", "w"):
            return now_ms - parse_duration(text)
        return parse_time(f"{text}T00:00:00Z" if len(text) == len("2030-01-31") else text)
    except ValueError as error:
        raise OptionInvalid(f"{option}: {error}.") from error


def _tell(verdict: Verdict) -> None:
    total = Row(*GROUPS, *COUNTS)("all", "", "", *(verdict.totals[name] for name in COUNTS))
    groups = [name for name in GROUPS if name != "namespace" or any(row[name] for row in verdict.rows)]
    shown = [name for name in COUNTS if verdict.totals[name] or name in ("accepted", "delivered", "pending", "missing")]
    print(table([*groups, *shown], [*verdict.rows, total]))
    if verdict.late:
        print(f"{verdict.late:,} are late, not lost: no worker has reported yet that it reached their due time.")
    _list("missing", LOST, verdict.lost, verdict.missing)
    _list("delivered more than once", ("source", "to", "again"), verdict.twice)
    _list("never accepted", ("source", "to", "ending"), verdict.strange, verdict.strangers)
    if not verdict.holdings:
        print(
            "not compared with the workers' pending messages: the ledger does not start at the beginning of the topics."
        )
    elif all(each.agrees for each in verdict.holdings):
        in_flight = sum(each.in_flight for each in verdict.holdings)
        held = sum(each.by_worker for each in verdict.holdings)
        print(f"the workers hold {held:,} messages, like the ledger, except for {in_flight:,} changes in flight.")
    for fault in verdict.faults():
        print(fault)
    print("balanced" if verdict.balanced else "NOT balanced")


def _list(what: str, names: Sequence[str], rows: Sequence[Row], count: int | None = None) -> None:
    """Print the first rows of a kind, and how many there are."""
    if rows:
        print(f"{what} ({min(len(rows), _LISTED):,} of {count or len(rows):,}):")
        print(table(names, rows[:_LISTED]))


def table(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Return rows as aligned text."""
    lines = [[*names], *([_text(name, row[name]) for name in names] for row in rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(names))]
    numeric = {number for number, name in enumerate(names) if name in COUNTS}
    return "\n".join(
        "  ".join(
            text.rjust(widths[number]) if number in numeric else text.ljust(widths[number])
            for number, text in enumerate(line)
        ).rstrip()
        for line in lines
    )


def _text(name: str, value: object) -> str:
    if value is None:
        return "-"
    if name == "due_ms":
        return datetime.fromtimestamp(int(str(value)) / 1000, UTC).isoformat(timespec="milliseconds")
    return f"{value:,}" if isinstance(value, int) and name in COUNTS else str(value)


def _write(lake: Lake, out: str, verdict: Verdict) -> None:
    counts = ", ".join(f"{name} long" for name in COUNTS)
    tables: dict[str, tuple[Sequence[Row], str]] = {
        "account.csv": (verdict.rows, f"day date, namespace string, to string, {counts}"),
        "missing.csv": (verdict.lost, "source string, id string, to string, due_ms long, partition int, why string"),
        "duplicates.csv": (verdict.twice, "source string, to string, again long"),
        "strangers.csv": (verdict.strange, "source string, to string, ending string"),
    }
    for name, (rows, columns) in tables.items():
        there = lake.spark.createDataFrame(list(rows), columns)
        there.coalesce(1).write.mode("overwrite").csv(f"{out}/{name}", header=True)
