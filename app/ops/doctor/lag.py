"""Checks how far workers are behind the inputs, because records older than the retention are deleted unread."""

from collections.abc import Iterator

from app.engine.reports.reader import STALE_AFTER_MS
from app.ops.doctor.facts import Facts
from app.ops.doctor.finding import Finding
from app.settings.topics import TopicSettings

CHECK = "retention"
#: With a shorter retention, workers that are stopped for this long would lose requests.
_SHORT_MS = 86_400_000
_HOUR_MS = 3_600_000


def check(topics: TopicSettings, facts: Facts) -> Iterator[Finding]:
    """Yield each input's retention compared to its readers' lag."""
    for topic in (*topics.inputs, topics.forwards):
        described = facts.cluster.topics.get(topic)
        if described is None or not described.config:
            continue
        kept_ms = int(described.config["retention.ms"])
        if kept_ms < 0:
            continue
        behind = _furthest(facts, topic)
        if behind is not None and behind[1] > kept_ms // 2:
            partition, lag_ms = behind
            sentence = (
                f"partition {partition} of topic {topic} is read up to {_hours(lag_ms)} ago, and records are kept for "
                f"{_hours(kept_ms)}: requests will be deleted unread. Raise retention.ms at once, then add workers, "
                "or check what blocks the worker that owns it."
            )
            yield Finding("error", CHECK, topic, sentence)
        elif kept_ms < _SHORT_MS:
            sentence = (
                f"topic {topic} keeps records for {_hours(kept_ms)}: if all workers are down for longer, requests are "
                "lost. Raise retention.ms to a week."
            )
            yield Finding("warning", CHECK, topic, sentence)
        else:
            sentence = f"topic {topic} keeps records for {_hours(kept_ms)}, longer than its readers' lag."
            yield Finding("ok", CHECK, topic, sentence)


def _furthest(facts: Facts, topic: str) -> tuple[int, int] | None:
    """Return the partition with the largest lag among recent reports, and its lag, or None."""
    furthest = {}
    for number, report in facts.reports.items():
        read_ms = report.progress.read_to.get(topic, -1)
        if read_ms > 0 and facts.now_ms - report.appended_ms <= STALE_AFTER_MS:
            furthest[number] = facts.now_ms - read_ms
    return max(furthest.items(), key=lambda item: item[1], default=None)


def _hours(span_ms: int) -> str:
    if span_ms >= _SHORT_MS:
        return f"{span_ms / _SHORT_MS:.3g} d"
    return f"{span_ms / _HOUR_MS:.3g} h"
