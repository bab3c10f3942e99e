"""The verdict on an installation in words: whether everything is on time, and if not, what is late and why."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from app.console import wording
from app.route import described
from punctual import spans

_WHY_IS_ELSEWHERE = "the log of the worker that has them says it"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence for the eye, and what needs attention, each with what is known of why."""

    level: Literal["good", "late", "unsure"]
    word: str
    text: str
    notices: list[str]


def verdict(whole: Mapping[str, Any]) -> Verdict:
    """Return the verdict on an overview, as `/api/v1/overview` has it."""
    notices = [*_silent(whole), *_held(whole), *_broken(whole)]
    waiting = f"{wording.number(whole['pending'])} pending{_next(whole)}"
    held = [row for row in whole["destinations"] if row["held_since_ms"] is not None]
    if held:
        oldest = min(held, key=lambda row: row["held_since_ms"])
        others = f", and {wording.counted(len(held) - 1, 'more destination')}" if len(held) > 1 else ""
        span = spans.duration(max(0, whole["at_ms"] - oldest["held_since_ms"]))
        why = oldest["held_because"] or _WHY_IS_ELSEWHERE
        text = f"{described(oldest['destination'])} held for {span}, {why}{others}"
        return Verdict(level="late", word="Late", text=text, notices=notices)
    if whole["partitions_missing"] or whole["partitions_stale"]:
        unseen = sorted([*whole["partitions_missing"], *whole["partitions_stale"]])
        text = f"no report from {_partitions(unseen)}. {waiting} as last reported"
        return Verdict(level="unsure", word="Not sure", text=text, notices=notices)
    if whole["overdue"]:
        text = f"{wording.number(whole['overdue'])} overdue by more than a second. {waiting}"
        return Verdict(level="late", word="Late", text=text, notices=notices)
    return Verdict(level="good", word="On time", text=waiting, notices=notices)


def _next(whole: Mapping[str, Any]) -> str:
    due_ms = whole["next_due_ms"]
    return "" if due_ms is None else f", next {spans.relative(due_ms, whole['at_ms'])}"


def _silent(whole: Mapping[str, Any]) -> Iterator[str]:
    missing, stale = whole["partitions_missing"], whole["partitions_stale"]
    if missing:
        it = "them" if len(missing) > 1 else "it"
        yield f"No report yet from {_partitions(missing)}: no worker has taken {it} so far."
    if stale:
        left = "its messages wait until a worker takes it over"
        if len(stale) > 1:
            left = "their messages wait until a worker takes them over"
        yield f"No report lately from {_partitions(stale)}: {left}."


def _held(whole: Mapping[str, Any]) -> Iterator[str]:
    for held in whole["destinations"]:
        if held["held_since_ms"] is not None:
            since = spans.relative(held["held_since_ms"], whole["at_ms"])
            why = held["held_because"] or _WHY_IS_ELSEWHERE
            name = described(held["destination"])
            yield f"{name} does not take messages: the oldest one was due {since}. Why: {why}."


def _broken(whole: Mapping[str, Any]) -> Iterator[str]:
    for queue in whole["queues"]:
        if queue["breakers_open"]:
            of = f"{queue['breakers_open']} of {wording.counted(queue['consumers'], 'consumer')}"
            fails = f"{queue['group']} fails on the queue {queue['topic']}"
            yield f"{fails}: the circuit breaker of {of} lets only a probe pass."


def _partitions(numbers: list[int]) -> str:
    return f"partition{'s' if len(numbers) > 1 else ''} {wording.partitions(numbers)}"
