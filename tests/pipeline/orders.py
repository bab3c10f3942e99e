"""Commands for ids far in the future, cancelled and at once scheduled again, and their expected deliveries."""

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
#: Commands of this period are sent together.
_TOGETHER_S = 0.1
#: The further commands: one id in five gets one while it is parked, and one in five while a worker holds it.
_MORE, _MORE_SHARE = ("schedule", "reschedule", "deliver-now", "cancel"), 0.2
_PARK_S = 180.0


@dataclass(frozen=True)
class Form:
    """The number and the times (in seconds) of the commands.

    Args:
        ids: the number of ids.
        asking_s: the period over which the ids are scheduled again.
        horizon_s: the worker's horizon.
        lead_s: the lead of `promote`.
        beyond_s: minimum and maximum of the due time after the horizon.
        parked_s: when a parked id gets a further command, counted from its second schedule.
        held_s: when a held id gets a further command, counted back from its due time.
        later_s: by how much a further command moves the due time at most.
    """

    ids: int
    asking_s: float
    horizon_s: int
    lead_s: int
    beyond_s: tuple[float, float]
    parked_s: tuple[float, float]
    held_s: tuple[float, float]
    later_s: float


class Order(NamedTuple):
    """A command for an id; `anew` is a cancel and a schedule. Times are seconds from the beginning."""

    at_s: float
    id: str
    op: str
    due_s: float


class Wanted(NamedTuple):
    """The expected delivery of an id; `at_once` is true after a `deliver-now`."""

    value: bytes | None
    due_ms: int
    at_once: bool


def plan(form: Form, chance: random.Random) -> list[Order]:
    """Return all commands, sorted by time."""
    orders = []
    for number in range(form.ids):
        id_, at = f"id-{number}", form.asking_s * number / form.ids
        due = at + form.horizon_s + chance.uniform(*form.beyond_s)
        orders.append(Order(at, id_, "anew", due))
        parked, held = at + chance.uniform(*form.parked_s), due - chance.uniform(*form.held_s)
        share, then = chance.random(), due + chance.uniform(0, form.later_s)
        if share < 2 * _MORE_SHARE:
            orders.append(Order(parked if share < _MORE_SHARE else held, id_, chance.choice(_MORE), then))
    return sorted(orders)


class Orders(Background):
    """Sends commands during its `with` block: schedules each id in a day, which parks it, and then follows a plan."""

    def __init__(self, here: Installation, to: str, form: Form) -> None:
        super().__init__()
        self._here, self._to, self._form = here, to, form
        self._chance = random.Random(1)  # noqa: S311 - which orders

    @property
    def over(self) -> bool:
        """Whether all commands have been sent."""
        return not self._thread.is_alive()

    def _work(self) -> None:
        for number in range(self._form.ids):
            self._schedule(f"id-{number}", now_ms() + _FAR_MS, number % PARTITIONS)
        self._here.requests.flush()
        cold = f"{self._here.app_id}-cold"
        eventually(lambda: sum(ends(self._here.bootstrap, cold).values()) >= self._form.ids, _PARK_S, "parking")
        began = time.time()
        for number, some in itertools.groupby(plan(self._form, self._chance), lambda each: each.at_s // _TOGETHER_S):
            if self._over.wait(max(0.0, began + (number + 1) * _TOGETHER_S - time.time())):
                return
            self._send(int(began * 1_000), list(some), acknowledged=bool(number % 2))

    def _send(self, began_ms: int, orders: Sequence[Order], *, acknowledged: bool) -> None:
        """Send some commands; a schedule follows its cancel at once, or after its acknowledgement."""
        anew = []
        for order in orders:
            where, due = self._partition(order.id), began_ms + int(order.due_s * 1_000)
            if order.op == "anew":
                anew.append((order.id, due, where))
                where = (where + self._chance.randrange(1, PARTITIONS)) % PARTITIONS
                self._here.requests.send({"delay-op": "cancel", "delay-id": order.id}, partition=where)
            elif order.op == "schedule":
                self._schedule(order.id, due, where)
            else:
                at = {"delay-at": str(due)} if order.op == "reschedule" else {}
                self._here.requests.send({"delay-op": order.op, "delay-id": order.id, **at}, partition=where)
        if acknowledged:
            self._here.requests.flush()
        for id_, due, where in anew:
            self._schedule(id_, due, where)
        self._here.requests.flush()

    def _schedule(self, id_: str, due_ms: int, partition: int) -> None:
        said = {"delay-id": id_, "delay-at": str(due_ms), "delay-to": self._to}
        self._here.requests.send(said, None, f"{id_} due {due_ms}".encode(), partition=partition)

    def _partition(self, id_: str) -> int:
        """Return a random partition, often the home of an id, where commands overtake forwarded ones."""
        home = self._chance.random() < 0.5
        return home_partition(id_, (), PARTITIONS) if home else self._chance.randrange(PARTITIONS)


def wanted(requests: Iterable[Record]) -> dict[str, Wanted]:
    """Return the expected deliveries by the records of the requests topic: the last command for each id decides.

    Commands sort by their stamp, the largest timestamp of their partition so far, then by partition and offset. Records
    from the cold tier are not commands.
    """
    stamps, found = Counter[int](), dict[str, Wanted]()
    orders = []
    for record in requests:
        stamps[record.partition] = max(stamps[record.partition], record.timestamp_ms)
        if "delay-parked" not in dict(record.headers):
            orders.append((stamps[record.partition], record.partition, record.offset, record))
    for stamp, *_, record in sorted(orders, key=lambda each: each[:3]):
        said = dict(record.headers)
        id_, op, due = record.header("delay-id"), said.get("delay-op", b"schedule"), int(said.get("delay-at") or 0)
        if op == b"schedule":
            found[id_] = Wanted(record.value, due, at_once=False)
        elif op == b"cancel":
            found.pop(id_, None)
        elif id_ in found:
            at_once = op == b"deliver-now"
            found[id_] = Wanted(found[id_].value, stamp if at_once else due, at_once)
    return found


def wanted_of(here: Installation) -> dict[str, Wanted]:
    """Return the expected deliveries of an installation."""
    return wanted(read(here.bootstrap, here.requests.topic))


def faults(expected: Mapping[str, Wanted], came: Mapping[str, Sequence[Record]]) -> list[str]:
    """Return a sentence for each message that was lost, revived, altered, early, or delivered twice."""
    found = [f"{id_} is lost" for id_ in expected.keys() - came.keys()]
    for id_, records in came.items():
        if id_ not in expected:
            found.append(f"{id_} was delivered though cancelled")
            continue
        if len(records) > 1:
            found.append(f"{id_} was delivered {len(records)} times")
        for record in records:
            said, due = (record.value, record.header("delay-due")), expected[id_].due_ms
            if said != (expected[id_].value, str(due)):
                found.append(f"{id_} came as {said} instead of {expected[id_]}")
            if record.timestamp_ms < due:
                found.append(f"{id_} came {due - record.timestamp_ms} ms early")
    return found
