"""A job: one action on all messages that match a filter, done partition by partition by their owners."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, Literal

import msgspec

from app.serve.dead_letters.dead_letter import DeadLetterFilter
from app.serve.search.filter import Filter
from app.serve.search.scan import Place, Row
from punctual.client.requests import Request, command
from punctual.contract.times import moment_of
from tables import keys

JobAction = Literal["cancel", "reschedule", "deliver-now", "resend"]
#: The action on dead letters; the others are for pending messages.
RESEND: Final = "resend"
_DIGITS: Final = 19


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One action on all messages that matched a filter at `at_ms` (epoch ms).

    `ends` has, by partition, the end offset of each input topic and of the forwards topic at that time: later requests
    are not part of the job. `due_ms` is the new due time of a reschedule. The job acts on at most `counted` messages,
    the number that its creator `by` has confirmed; `bound` says whether the creator is bound to namespaces. A job that
    sends dead letters again has `dead_letters` as its filter, and the ends of their topic. If the brokers stored the
    job after `begins_by_ms`, it never begins, because its creator got an error.
    """

    job_id: str
    at_ms: int
    by: str
    role: str
    act: JobAction
    filter: Filter
    counted: int
    ends: list[dict[str, int]]
    due_ms: int | None = None
    stopped: bool = False
    dead_letters: DeadLetterFilter | None = None
    begins_by_ms: int | None = None
    bound: bool = False

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that the job is limited to; empty if it is not limited."""
        within = (self.dead_letters or self.filter).within
        return frozenset() if within is None else within.names


class PartProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a job in one partition: the cursor `after` which it continues, and its commands' outcomes.

    `untold` counts commands without an event in time. Commands of the job before offset `ordered_to` of the requests
    topic are counted here. The part may have acted on `reserved` messages if that is more than `sent`, and is `limited`
    if more messages matched than the job may act on. For dead letters, `ahead` has finished offsets beyond `after`, and
    `refused` has offsets that were not accepted. If two owners recorded progress, the higher `epoch` counts.
    """

    job_id: str
    partition: int
    after: str = ""
    sent: int = 0
    reserved: int = 0
    outcomes: dict[str, int] = {}
    untold: int = 0
    over: bool = False
    limited: bool = False
    ordered_to: int = 0
    ahead: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    worker: str = ""
    at_ms: int = 0
    epoch: int = 0

    def has_sent(self, offset: int) -> bool:
        """Return whether the dead letter at this offset was sent again, if it matches the job's filter."""
        return (offset < self.after_offset or offset in self.ahead) and offset not in self.refused

    @property
    def after_offset(self) -> int:
        """The offset in `after`, for dead letters; 0 if a stranger may have written an invalid one."""
        return int(self.after) if self.after.isascii() and self.after.isdigit() and len(self.after) <= _DIGITS else 0

    @property
    def after_place(self) -> Place:
        """The place in `after`, for messages; the first place if a stranger may have written an invalid one."""
        try:
            return Place.parse(self.after)
        except ValueError:
            return Place()


#: A `limited` job has acted on as many messages as were confirmed, while more match.
State = Literal["running", "stopped", "limited", "done"]


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job in all its partitions."""

    job: Job
    state: State
    sent: int
    outcomes: dict[str, int]
    untold: int
    partitions: int
    partitions_over: int
    parts: list[PartProgress]


def status_of(job: Job, parts: Iterable[PartProgress]) -> JobStatus:
    """Return the state of a job, from the progress of its parts; it has the partitions that existed at its start."""
    partitions = len(job.ends)
    known = sorted(parts, key=lambda part: part.partition)
    outcomes: Counter[str] = Counter()
    for part in known:
        outcomes.update(part.outcomes)
    over = sum(part.over for part in known)
    state: State = "done" if over == partitions else "running"
    if state == "done" and any(part.limited for part in known):
        state = "limited"
    return JobStatus(
        job=job,
        state="stopped" if job.stopped and state == "running" else state,
        sent=sum(part.sent for part in known),
        outcomes=dict(outcomes),
        untold=sum(part.untold for part in known),
        partitions=partitions,
        partitions_over=over,
        parts=known,
    )


def command_for(job: Job, row: Row) -> Request:
    """Return the command for one message, which applies only if the message is older than the job and still due then.

    For a recurring message the due time is not checked: it changes with each occurrence.
    """
    assert job.act != RESEND, "this action applies only to dead letters"
    message = row.message
    at = None if job.due_ms is None else moment_of(job.due_ms)
    if_due = None if message.occurrence is not None else moment_of(message.due_ms)
    request = command(job.act, message.id, at=at, if_due=if_due, asked_at=moment_of(job.at_ms))
    return replace(request, value=mark(job))


def mark(job: Job) -> bytes:
    """Return the value that marks the commands of a job; workers do not use the value of a command."""
    return job.job_id.encode()


def ends_by_crc(job: Job, partition: int, base: Callable[[str], int]) -> dict[int, int]:
    """Return the end offsets of a partition's input topics at the job's start, by the topic numbers in row keys.

    `base` returns the number that row keys add to the offsets of a topic.
    """
    return {keys.topic_crc(topic): end + base(topic) for topic, end in job.ends[partition].items()}


def concerns(ends: Mapping[int, int], row: Row) -> bool:
    """Return whether a message got its current due time before the job's `ends`, as the offset in its key shows."""
    key = row.place.key
    offset, crc = int.from_bytes(key[8:16], "big"), int.from_bytes(key[16:], "big")
    return offset < ends.get(crc, offset + 1)
