"""A job: one action on all messages that match a filter, done partition by partition by their owners."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, Literal

import msgspec

from app.serve.dead_letters.filter import DeadLetterFilter
from app.serve.search.filter import Filter
from app.serve.search.row import Row
from app.serve.search.scan import Place
from punctual.client.requests import Request, command
from punctual.contract.times import moment_of
from tables import keys

JobAction = Literal["cancel", "reschedule", "deliver-now", "resend"]
#: What can be done to pending messages, and to dead letters.
MESSAGE_ACTIONS: Final = ("cancel", "reschedule", "deliver-now")
RESEND: Final = "resend"
_DIGITS: Final = 19


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done: an action on all that match a filter, as it was at `at_ms` (epoch ms).

    `ends` has, by partition, where each log ended then that requests and commands come from: whatever was asked for
    beyond is none of the job's business. `due_ms` is the new due time of a reschedule. It acts on at most `counted`
    messages, as many as its creator `by` has confirmed, who may be `bound` to namespaces. A job that sends
    dead letters again has a filter of theirs, and the ends of their topic. One that the brokers have taken later than
    `begins_by_ms` never begins: its creator got an error.
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
        """The namespaces that it is about alone, none if it is about all there is."""
        within = (self.dead_letters or self.filter).within
        return frozenset() if within is None else within.names


class PartProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one partition's part of a job is: the cursor `after` which it goes on, and the outcomes of its commands.

    `untold` are commands whose event has not come in time. Before the offset `ordered_to` of the requests, all
    commands of the job are counted here. It may have acted on `reserved` messages if that is more than `sent`, and is
    `limited` if it has met more messages than the job may act on. Of dead letters, those `ahead` of `after` are done
    with too, and `refused` ones were not taken: both are offsets. Of two notes of a part that of the later owner
    counts, who has the higher `epoch`.
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
        """Return whether the dead letter at this offset was sent again, if the job is about it."""
        return (offset < self.after_offset or offset in self.ahead) and offset not in self.refused

    @property
    def after_offset(self) -> int:
        """The offset that `after` is for dead letters; 0 for anything that a stranger may have written."""
        return int(self.after) if self.after.isascii() and self.after.isdigit() and len(self.after) <= _DIGITS else 0

    @property
    def after_place(self) -> Place:
        """The place that `after` is for messages; the first one for anything that a stranger may have written."""
        try:
            return Place.parse(self.after)
        except ValueError:
            return Place()


#: A job is `limited` that has acted on as many messages as were confirmed, while more match.
State = Literal["running", "stopped", "limited", "done"]


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a job stands, all its partitions together."""

    job: Job
    state: State
    sent: int
    outcomes: dict[str, int]
    untold: int
    partitions: int
    partitions_over: int
    parts: list[PartProgress]


def status_of(job: Job, parts: Iterable[PartProgress]) -> JobStatus:
    """Return how a job stands, in the partitions that there were when it was given."""
    partitions = len(job.ends)
    found = sorted(parts, key=lambda part: part.partition)
    outcomes: Counter[str] = Counter()
    for part in found:
        outcomes.update(part.outcomes)
    over = sum(part.over for part in found)
    state: State = "done" if over == partitions else "running"
    if state == "done" and any(part.limited for part in found):
        state = "limited"
    return JobStatus(
        job=job,
        state="stopped" if job.stopped and state == "running" else state,
        sent=sum(part.sent for part in found),
        outcomes=dict(outcomes),
        untold=sum(part.untold for part in found),
        partitions=partitions,
        partitions_over=over,
        parts=found,
    )


def command_for(job: Job, row: Row) -> Request:
    """Return the command for one message: it applies only if the message is older than the job, and still due as seen.

    A series is not due as was seen once an occurrence has gone out, but is still the one that was asked for.
    """
    assert job.act != RESEND, "this action applies only to dead letters"
    at = None if job.due_ms is None else moment_of(job.due_ms)
    if_due = None if row.series is not None else moment_of(row.due_ms)
    request = command(job.act, row.id, at=at, if_due=if_due, asked_at=moment_of(job.at_ms))
    return replace(request, value=mark(job))


def mark(job: Job) -> bytes:
    """Return the value of a job's commands, which marks them: nobody reads the value of a command otherwise."""
    return job.job_id.encode()


def ends_by_crc(job: Job, partition: int, base: Callable[[str], int]) -> dict[int, int]:
    """Return where a partition's logs ended when the job was given, by the numbers that keys have for topics.

    `base` tells what is added to offsets of a topic where they name records, as keys do.
    """
    return {keys.topic_crc(topic): end + base(topic) for topic, end in job.ends[partition].items()}


def concerns(ends: Mapping[int, int], row: Row) -> bool:
    """Return whether a message that fits was there, and due then, when the logs ended there: its key tells."""
    place = bytes.fromhex(row.row)
    offset, crc = int.from_bytes(place[8:16], "big"), int.from_bytes(place[16:], "big")
    return offset < ends.get(crc, offset + 1)
