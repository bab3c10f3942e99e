"""The verdict on an installation in words: whether deliveries are on time, and the reason if they are not."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from app.engine.reports.overdue import GRACE_MS
from app.engine.reports.reader import DISK
from app.serve.console import wording
from punctual import durations
from punctual.contract.destination import described

#: A busy worker reads requests some seconds after they arrived; more than this is reported.
UNREAD_MS = 10_000

_WHY_IS_ELSEWHERE = "see the log of the worker that serves it"


class InstallationVerdict(msgspec.Struct, frozen=True):
    """One sentence as a headline, and notices of problems with their known reasons."""

    level: Literal["good", "late", "unsure"]
    word: str
    text: str
    notices: list[str]


def verdict(overview: Mapping[str, Any]) -> InstallationVerdict:
    """Return the verdict on an overview of `/api/v1/overview`."""
    notices = [*_silent(overview), *_standstills(overview), *_held(overview), *_paused(overview), *_broken(overview)]
    pending = f"{wording.number(overview['pending'])} pending{_next_due(overview)}"
    held = [row for row in overview["destinations"] if row["held_since_ms"] is not None]
    if held:
        oldest = min(held, key=lambda row: row["held_since_ms"])
        others = f"; {wording.counted(len(held) - 1, 'more destination')} affected" if len(held) > 1 else ""
        span = durations.duration(max(0, overview["at_ms"] - oldest["held_since_ms"]))
        why = oldest["held_because"] or _WHY_IS_ELSEWHERE
        text = f"{described(oldest['destination'])} not accepting messages for {span}: {why}{others}"
        return InstallationVerdict("late", "Late", text, notices)
    standstill = next(_standstills(overview), "")
    if standstill:
        return _headline("Late", standstill, pending, notices)
    if silent := sorted([*overview["partitions_missing"], *overview["partitions_stale"]]):
        text = f"no report from {_partitions(silent)}. {pending} at the last report"
        return InstallationVerdict("unsure", "Not sure", text, notices)
    if overview["overdue"]:
        text = f"{wording.number(overview['overdue'])} messages more than 1 s overdue. {pending}"
        return InstallationVerdict("late", "Late", text, notices)
    paused = next(_paused(overview), "")
    if paused:
        return _headline("Paused", paused, pending, notices)
    return InstallationVerdict("good", "On time", pending, notices)


def _headline(word: str, notice: str, pending: str, notices: list[str]) -> InstallationVerdict:
    """Return a verdict with a notice as its sentence, without repeating that notice below."""
    others = [text for text in notices if text != notice]
    return InstallationVerdict("late", word, f"{notice.rstrip('.')}. {pending}", others)


def _next_due(overview: Mapping[str, Any]) -> str:
    due_ms = overview["next_due_ms"]
    if due_ms is None:
        return ""
    words = wording.next_due(due_ms, overview["at_ms"])
    return ", next due now" if words == "now" else f", next {words}"


def _silent(overview: Mapping[str, Any]) -> Iterator[str]:
    missing, stale = overview["partitions_missing"], overview["partitions_stale"]
    if missing:
        yield f"No report yet from {_partitions(missing)}: no worker serves {'them' if len(missing) > 1 else 'it'}."
    if stale:
        effect = "its messages are not delivered until a worker takes it over"
        if len(stale) > 1:
            effect = "their messages are not delivered until a worker takes them over"
        yield f"No recent report from {_partitions(stale)}: {effect}."


def _standstills(overview: Mapping[str, Any]) -> Iterator[str]:
    """Yield notices of unread requests, full disks and unconfirmed writes."""
    now_ms, since_ms = overview["at_ms"], overview["unconfirmed_since_ms"]
    if since_ms is not None:
        span = durations.duration(now_ms - since_ms)
        yield f"The brokers have not confirmed any write for {span}: deliveries are blocked."
    full = [worker["worker"] for worker in overview["workers"] if worker["held_back"] == DISK]
    if full:
        yield f"{', '.join(full)} stopped accepting requests: free disk space is below the minimum."
    unread = {row["partition"]: row["unread_since_ms"] for row in overview["partitions"] if row["state"] == "reporting"}
    late = {number: at_ms for number, at_ms in unread.items() if at_ms is not None and now_ms - at_ms > UNREAD_MS}
    if late:
        span = durations.duration(now_ms - min(late.values()))
        yield f"Requests in {_partitions(sorted(late))} have been unread for {span}, so cancellations may be late."


def _paused(overview: Mapping[str, Any]) -> Iterator[str]:
    for row in overview["destinations"]:
        pause = row["paused"]
        if pause is not None and pause["since_ms"] is not None and overview["at_ms"] - pause["since_ms"] > GRACE_MS:
            since = durations.relative(pause["since_ms"], overview["at_ms"])
            by = f" by {pause['by']}" if pause["by"] else ""
            yield f"{described(row['destination'])} is paused{by}: the oldest message was due {since}."


def _held(overview: Mapping[str, Any]) -> Iterator[str]:
    for held in overview["destinations"]:
        if held["held_since_ms"] is not None:
            since = durations.relative(held["held_since_ms"], overview["at_ms"])
            why = held["held_because"] or _WHY_IS_ELSEWHERE
            name = described(held["destination"])
            yield f"{name} is not accepting messages: {why}. The oldest message was due {since}."


def _broken(overview: Mapping[str, Any]) -> Iterator[str]:
    for queue in overview["queues"]:
        if queue["breakers_open"]:
            share = f"{queue['breakers_open']} of {wording.counted(queue['consumers'], 'consumer')}"
            subject = f"Consumers of the queue {queue['topic']} in the group {queue['group']} are failing"
            yield f"{subject}: the circuit breaker is open in {share}."


def _partitions(numbers: list[int]) -> str:
    return f"partition{'s' if len(numbers) > 1 else ''} {wording.partitions(numbers)}"
