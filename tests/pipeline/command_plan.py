"""A random plan of commands for parked messages, and the deliveries that a worker has to make after them."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from punctual.contract.home import home_partition
from tests.harness.background import Background
from tests.harness.kafka import Record, ends, now_ms, read
from tests.harness.waiting import eventually
from tests.integration.installation import PARTITIONS, Installation

_FAR_MS = 24 * 3_600_000
#: The commands of each such period are sent as one batch.
_BATCH_S = 0.1
#: One id in five gets a further command while it is parked, and one in five while a worker holds it.
_FURTHER_OPS, _FURTHER_SHARE = ("schedule", "reschedule", "deliver-now", "cancel"), 0.2
_PARK_S = 180.0


@dataclass(frozen=True)
class PlanSettings:
    """The number of the commands and their times, in seconds.

    Args:
        ids: the number of ids.
        scheduling_s: the period over which the ids are scheduled again, one after another.
        horizon_s: the worker's horizon.
        lead_s: the lead of `promote`.
        beyond_s: minimum and maximum of the due time after the horizon.
        parked_s: when a parked id gets a further command, counted from its second schedule.
        held_s: when a held id gets a further command, counted back from its due time.
        later_s: by how much a further command moves the due time at most.
    """

    ids: int
    scheduling_s: float
    horizon_s: int
    lead_s: int
    beyond_s: tuple[float, float]
    parked_s: tuple[float, float]
    held_s: tuple[float, float]
    later_s: float


class Command(NamedTuple):
    """A command for an id; the op `again` is a cancel and a schedule. Times are seconds from the start of the plan."""

    at_s: float
    id: str
    op: str
    due_s: float


class ExpectedDelivery(NamedTuple):
    """The expected delivery of an id; `at_once` is true after a `deliver-now`."""

    value: bytes | None
    due_ms: int
    at_once: bool


def plan(settings: PlanSettings, generator: random.Random) -> list[Command]:
    """Return the commands of a random plan, sorted by time."""
    commands = []
    for number in range(settings.ids):
        id_, at_s = f"id-{number}", settings.scheduling_s * number / settings.ids
        due_s = at_s + settings.horizon_s + generator.uniform(*settings.beyond_s)
        commands.append(Command(at_s, id_, "again", due_s))
        parked_at_s = at_s + generator.uniform(*settings.parked_s)
        held_at_s = due_s - generator.uniform(*settings.held_s)
        draw, later_s = generator.random(), due_s + generator.uniform(0, settings.later_s)
        if draw < 2 * _FURTHER_SHARE:
            further_at_s = parked_at_s if draw < _FURTHER_SHARE else held_at_s
            commands.append(Command(further_at_s, id_, generator.choice(_FURTHER_OPS), later_s))
    return sorted(commands)


class CommandSender(Background):
    """Sends commands during its `with` block: schedules each id a day ahead, which parks it, then follows a plan."""

    def __init__(self, installation: Installation, to: str, settings: PlanSettings) -> None:
        super().__init__()
        self._installation, self._to, self._settings = installation, to, settings
        self._generator = random.Random(1)  # noqa: S311 - it chooses commands

    @property
    def finished(self) -> bool:
        """Whether all commands have been sent."""
        return not self._thread.is_alive()

    def _work(self) -> None:
        for number in range(self._settings.ids):
            self._schedule(f"id-{number}", now_ms() + _FAR_MS, number % PARTITIONS)
        self._installation.requests.flush()
        cold_topic = f"{self._installation.app_id}-cold"
        eventually(
            lambda: sum(ends(self._installation.bootstrap, cold_topic).values()) >= self._settings.ids,
            _PARK_S,
            "parking",
        )
        start_s = time.time()
        commands = plan(self._settings, self._generator)
        for number, batch in itertools.groupby(commands, lambda command: command.at_s // _BATCH_S):
            if self._over.wait(max(0.0, start_s + (number + 1) * _BATCH_S - time.time())):
                return
            self._send(int(start_s * 1_000), list(batch), acknowledged=bool(number % 2))

    def _send(self, start_ms: int, commands: Sequence[Command], *, acknowledged: bool) -> None:
        """Send a batch of commands; a schedule follows its cancel at once, or after Kafka acknowledged the cancel."""
        schedules = []
        for command in commands:
            partition, due_ms = self._partition(command.id), start_ms + int(command.due_s * 1_000)
            if command.op == "again":
                schedules.append((command.id, due_ms, partition))
                partition = (partition + self._generator.randrange(1, PARTITIONS)) % PARTITIONS
                self._installation.requests.send({"delay-op": "cancel", "delay-id": command.id}, partition=partition)
            elif command.op == "schedule":
                self._schedule(command.id, due_ms, partition)
            else:
                due_header = {"delay-at": str(due_ms)} if command.op == "reschedule" else {}
                headers = {"delay-op": command.op, "delay-id": command.id, **due_header}
                self._installation.requests.send(headers, partition=partition)
        if acknowledged:
            self._installation.requests.flush()
        for id_, due_ms, partition in schedules:
            self._schedule(id_, due_ms, partition)
        self._installation.requests.flush()

    def _schedule(self, id_: str, due_ms: int, partition: int) -> None:
        headers = {"delay-id": id_, "delay-at": str(due_ms), "delay-to": self._to}
        self._installation.requests.send(headers, None, f"{id_} due {due_ms}".encode(), partition=partition)

    def _partition(self, id_: str) -> int:
        """Return a random partition, in half of the cases the home of an id, where commands overtake forwarded ones."""
        at_home = self._generator.random() < 0.5
        return home_partition(id_, (), PARTITIONS) if at_home else self._generator.randrange(PARTITIONS)


def expected_deliveries(requests: Iterable[Record]) -> dict[str, ExpectedDelivery]:
    """Return the expected delivery of each id after the records of the requests topic: the last command decides.

    Commands sort by their stamp, which is the largest timestamp of their partition so far, then by partition and
    offset. Records that the cold tier sends are not commands.
    """
    stamps, deliveries = Counter[int](), dict[str, ExpectedDelivery]()
    commands = []
    for record in requests:
        stamps[record.partition] = max(stamps[record.partition], record.timestamp_ms)
        if "delay-parked" not in dict(record.headers):
            commands.append((stamps[record.partition], record.partition, record.offset, record))
    for stamp, *_, record in sorted(commands, key=lambda command: command[:3]):
        headers = dict(record.headers)
        id_, op = record.header("delay-id"), headers.get("delay-op", b"schedule")
        due_ms = int(headers.get("delay-at") or 0)
        if op == b"schedule":
            deliveries[id_] = ExpectedDelivery(record.value, due_ms, at_once=False)
        elif op == b"cancel":
            deliveries.pop(id_, None)
        elif id_ in deliveries:
            at_once = op == b"deliver-now"
            deliveries[id_] = ExpectedDelivery(deliveries[id_].value, stamp if at_once else due_ms, at_once)
    return deliveries


def expected_deliveries_of(installation: Installation) -> dict[str, ExpectedDelivery]:
    """Return the expected deliveries of an installation."""
    return expected_deliveries(read(installation.bootstrap, installation.requests.topic))


def faults(expected: Mapping[str, ExpectedDelivery], deliveries: Mapping[str, Sequence[Record]]) -> list[str]:
    """Return a sentence for each message that was lost, delivered after a cancel, altered, early or repeated."""
    sentences = [f"{id_} is lost" for id_ in expected.keys() - deliveries.keys()]
    for id_, records in deliveries.items():
        if id_ not in expected:
            sentences.append(f"{id_} was delivered though cancelled")
            continue
        if len(records) > 1:
            sentences.append(f"{id_} was delivered {len(records)} times")
        for record in records:
            delivery, due_ms = (record.value, record.header("delay-due")), expected[id_].due_ms
            if delivery != (expected[id_].value, str(due_ms)):
                sentences.append(f"{id_} came as {delivery} instead of {expected[id_]}")
            if record.timestamp_ms < due_ms:
                sentences.append(f"{id_} came {due_ms - record.timestamp_ms} ms early")
    return sentences
