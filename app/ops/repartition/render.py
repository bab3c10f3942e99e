"""A report of a change of the number of partitions, for people and for programs."""

import msgspec

from app.ops.repartition.run import RunReport


def as_json(report: RunReport) -> str:
    """Return a report in JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def table(report: RunReport) -> str:
    """Return what people want to know."""
    if report.state == "abandoned":
        return f"abandoned: {report.before} partitions and {report.changelog}, as before"
    lines = [f"from {report.before} to {report.after} partitions: {report.state}", *_counts(report)]
    if report.state == "done":
        lines.append(f"Start all workers with DELAY_PARTITIONS={report.after} and DELAY_REPARTITIONED=on.")
    return "\n".join([*lines, *(f"! {sentence}" for sentence in report.hindrances)])


def _counts(report: RunReport) -> list[str]:
    """Return what was counted; nothing if it was done before."""
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
