"""`faust -A app repartition`: another number of partitions, offline and checked."""

import asyncio
import sys

import click
import msgspec
from aiokafka.errors import KafkaError

from app.base.errors import ClusterUnusable, PunctualError
from app.base.process.library_logs import silent
from app.ops.repartition.ground import ground
from app.ops.repartition.run import Repartition, RunReport
from app.settings.settings import Settings
from punctual.cli.terminal import legible_json, legible_lines
from tables import TableError

_HELP = """Increase the number of partitions: write a new changelog, check it, and switch to it.

Stop all workers first; producers can continue. Run it with a worker's unchanged environment. If it is interrupted,
run it again. Exit codes: 0 done, or with --dry-run ready; 1 not done, with the reason; 2 wrong use; 3 the cluster
cannot be reached. See docs/how-to/repartition.md.
"""
_NOT_DONE, _UNREACHABLE = 1, 3


@click.command("repartition", help=_HELP)
@click.option("--to", "after", type=click.IntRange(min=1), required=True, help="New number of partitions.")
@click.option("--dry-run", is_flag=True, help="Print the plan and whether it can be carried out. Changes nothing.")
@click.option("--abandon", is_flag=True, help="Undo an unfinished repartition.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def repartition(after: int, form: str, *, dry_run: bool, abandon: bool) -> None:
    """Change the number of partitions of the environment's installation."""
    if dry_run and abandon:
        raise click.UsageError("--dry-run and --abandon cannot be combined")
    settings = Settings.from_env()
    try:
        with silent("aiokafka"):
            report = asyncio.run(_run(settings, after, dry_run=dry_run, abandon=abandon))
    except (PunctualError, TableError) as error:
        _end(str(error), _NOT_DONE)
    except KafkaError as error:
        _end(str(ClusterUnusable(settings.kafka.bootstrap, error)), _UNREACHABLE)
    click.echo(legible_json(as_json(report)) if form == "json" else legible_lines(table(report)))
    sys.exit(_NOT_DONE if report.hindrances else 0)


async def _run(settings: Settings, after: int, *, dry_run: bool, abandon: bool) -> RunReport:
    async with ground(settings, after) as made:
        change = await Repartition.begun(made)
        if abandon:
            return await change.abandon()
        return await (change.look() if dry_run else change.run())


def _end(sentence: str, code: int) -> None:
    click.echo(legible_lines(f"punctual: {sentence}"), err=True)
    sys.exit(code)


def as_json(report: RunReport) -> str:
    """Return a report in JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def table(report: RunReport) -> str:
    """Return a report as text for people."""
    if report.state == "abandoned":
        return f"abandoned: {report.before} partitions and {report.changelog}, as before"
    lines = [f"from {report.before} to {report.after} partitions: {report.state}", *_counts(report)]
    if report.state == "done":
        lines.append(f"Start all workers with DELAY_PARTITIONS={report.after} and DELAY_REPARTITIONED=on.")
    return "\n".join([*lines, *(f"! {sentence}" for sentence in report.hindrances)])


def _counts(report: RunReport) -> list[str]:
    """Return the counts; an empty list if an earlier run did the work."""
    if not report.partitions:
        return []
    least, most = min(report.partitions), max(report.partitions)
    return [
        f"  {report.rows:,} messages, {report.moved:,} of them to another partition; {least:,} to {most:,} in each",
        *(f"  {number:,} for {name or '(callbacks)'}" for name, number in _largest(report)),
        f"  {report.under_way:,} records in transit between partitions",
        *(f"  {stage}: {seconds:.1f} s" for stage, seconds in report.seconds.items()),
        f"  {report.rows_per_s:,.0f} messages per second in total",
    ]


def _largest(report: RunReport, shown: int = 10) -> list[tuple[str, int]]:
    return sorted(report.destinations.items(), key=lambda one: -one[1])[:shown]
