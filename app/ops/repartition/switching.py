"""The switch: topics get their partitions, records in transit are passed on, and the new changelog becomes valid."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.base.clock import Clock
from app.base.version import VERSION
from app.engine.reports.progress import encode, names_with_largest
from app.kafka import Batch
from app.kafka.metadata.reader import PartitionReader
from app.ops.repartition.checking import due_next
from app.ops.repartition.forwards import WaitingForward, pass_on
from app.ops.repartition.ground import Ground
from app.settings.topics import TopicSettings
from tables import PartitionStore
from tables.entry import VERSION as VERSION_READ


def grown(topics: TopicSettings) -> list[str]:
    """Return the topics that get more partitions without being rewritten."""
    return [*topics.inputs, topics.events_topic, topics.dead_letters]


async def switch(ground: Ground, left: list[WaitingForward]) -> None:
    """Make the new changelog valid; can be interrupted anywhere and repeated."""
    settings = ground.after.settings
    await ground.topics.grow(grown(settings.topics), settings.topics.partitions)
    await pass_on(ground, left)
    await _report(ground)


async def _report(ground: Ground) -> None:
    """Write a report for each new partition, because readers of progress need one before workers report."""
    settings, now_ms = ground.after.settings, Clock.wall_ms()
    last = await _last_reports(ground)
    fired_to_ms = min((int(report.get("fired_to", 0)) for report in last.values()), default=0)
    for number, store in enumerate(ground.after.stores):
        batch = Batch()
        report = _report_of(number, store, last.get(number, {}), fired_to_ms, now_ms)
        batch.append(now_ms, b"%d" % number, encode({**report, "worker": settings.process.url}))
        await ground.sender.submit(settings.topics.progress, 0, batch)


def _report_of(
    number: int, store: PartitionStore, last: Mapping[str, Any], fired_to_ms: int, now_ms: int
) -> dict[str, Any]:
    """Return a partition's report. It keeps the old positions of inputs, which bind the next worker."""
    next_ms, counts = due_next(store), {name: of for name, of in store.counts.destinations.items() if name}
    named = names_with_largest(counts)
    rest = {"destinations": len(counts) - len(named), "messages": sum(counts.values()) - sum(named.values())}
    return {
        "partition": number,
        "at": now_ms,
        "fired_to": fired_to_ms if next_ms is None else min(fired_to_ms, max(0, next_ms - 1)),
        "read_to": last.get("read_to", {}),
        "reads": VERSION_READ,
        "rows": store.row_version,
        "positions": {topic: position.offset for topic, position in store.positions.items()},
        "pending": named,
        **({"pending_rest": rest} if rest["destinations"] else {}),
        "overdue": 0,
        "next_due": next_ms,
        "held": {},
        "lateness": {},
        "version": VERSION,
    }


async def _last_reports(ground: Ground) -> dict[int, dict[str, Any]]:
    """Return the last report of each partition, as far as it can be read."""
    reports: dict[int, dict[str, Any]] = {}
    reader = PartitionReader(ground.cluster, ground.before.settings.topics.progress, 0)
    end = await reader.end()
    reader = PartitionReader(ground.cluster, ground.before.settings.topics.progress, 0, await reader.begin())
    async for record in reader.up_to(end):
        try:
            report = msgspec.json.decode(record.value or b"{}", type=dict[str, Any])
            if record.key == b"%d" % report.get("partition", -1):
                reports[report["partition"]] = report
        except (ValueError, TypeError, msgspec.MsgspecError, RecursionError):
            continue  # foreign records are skipped
    return reports
