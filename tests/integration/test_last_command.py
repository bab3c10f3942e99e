"""The last request for an id wins, on any path: README-style use, while the worker is down and while it serves."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from punctual.contract.home import home_partition
from tests.harness.account import Account
from tests.harness.kafka import Requests, now_ms, read
from tests.harness.waiting import crowd, eventually
from tests.harness.worker import Worker
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation

#: Ids of each kind, and how far apart the orders of one are.
_IDS, _GAP_S = 40, 0.8
#: Orders of one millisecond sort by their partitions (records.md), and a broker answers within one.
_NEXT_S = 0.01
_OVER_MS = 3_600_000
GUARANTEES = ["at_least_once", "exactly_once"]


@dataclass
class Case:
    """The requests for the ids of one kind, in turn, and the delivery of each id: value and due time, or None."""

    name: str
    orders: list[Callable[["Sender", str], None]]
    delivered: Callable[["Sender"], tuple[bytes, int] | None]


@dataclass
class Sender:
    """Sends as users do: requests by customer, commands without a key, replacements by whatever key."""

    requests: Requests
    to: str
    due: int
    later: int
    rnd: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - the same ways each time

    def _key(self) -> bytes:
        return b"customer-%d" % self.rnd.randrange(1_000)

    def schedule(self, id_: str, value: bytes, due: int) -> None:
        headers = {"delay-id": id_, "delay-to": self.to, "delay-at": str(due)}
        self.requests.send(headers, self._key(), value)

    def command(self, op: str, id_: str, **more: str) -> None:
        self.requests.send({"delay-op": op, "delay-id": id_, **{f"delay-{name}": text for name, text in more.items()}})


def _ask(value: bytes, *, late: bool = False) -> Callable[[Sender, str], None]:
    return lambda sender, id_: sender.schedule(id_, value, sender.later if late else sender.due)


def _cancel(sender: Sender, id_: str) -> None:
    sender.command("cancel", id_)


def _move(*, late: bool) -> Callable[[Sender, str], None]:
    return lambda sender, id_: sender.command("reschedule", id_, at=str(sender.later if late else sender.due))


CASES = [
    Case("updated, then cancelled", [_ask(b"1"), _ask(b"2"), _cancel], lambda _: None),
    Case("cancelled, then scheduled again", [_ask(b"1"), _cancel, _ask(b"2")], lambda sender: (b"2", sender.due)),
    Case("brought forward", [_ask(b"1", late=True), _move(late=False)], lambda sender: (b"1", sender.due)),
    Case("put off", [_ask(b"1"), _move(late=True)], lambda sender: (b"1", sender.later)),
    Case("updated, then put off", [_ask(b"1"), _ask(b"2"), _move(late=True)], lambda sender: (b"2", sender.later)),
    Case("put off, then updated", [_ask(b"1"), _move(late=True), _ask(b"2")], lambda sender: (b"2", sender.due)),
    Case("replaced twice", [_ask(b"1"), _ask(b"2"), _ask(b"3")], lambda sender: (b"3", sender.due)),
    Case("cancelled twice", [_ask(b"1"), _cancel, _ask(b"2"), _cancel], lambda _: None),
]


def ids_of(case: Case) -> list[str]:
    return [f"{case.name.replace(' ', '-').replace(',', '')}-{number}" for number in range(_IDS)]


def send_all(sender: Sender, between: Callable[[], None]) -> None:
    """Send the requests of all cases, turn by turn; each is acknowledged before the next request for its id."""
    for turn in range(max(len(case.orders) for case in CASES)):
        for case in CASES:
            if turn < len(case.orders):
                for id_ in ids_of(case):
                    case.orders[turn](sender, id_)
        sender.requests.flush()
        between()


def wrong(installation: Installation, sender: Sender) -> dict[str, int]:
    """Count, by case, the ids with another delivery than the last request's."""
    found: dict[str, set[tuple[bytes, int]]] = {}
    for record in read(installation.bootstrap, sender.to):
        found.setdefault(record.header("delay-id"), set()).add((record.value or b"", int(record.header("delay-due"))))
    counts = {}
    for case in CASES:
        wanted = case.delivered(sender)
        expected = {wanted} if wanted is not None else set()
        counts[case.name] = sum(found.get(id_, set()) != expected for id_ in ids_of(case))
    return counts


def await_the_last(installation: Installation, sender: Sender) -> None:
    """Wait until all messages are due and delivered."""
    count = sum(_IDS for case in CASES if case.delivered(sender) is not None)
    time.sleep(max(0.0, (sender.later - now_ms()) / 1000))

    def delivered() -> bool:  # a worker that has read no requests has none pending either
        pending = Account.read(installation.bootstrap, installation.app_id).sums.get("pending", 0)
        ids = {record.header("delay-id") for record in read(installation.bootstrap, sender.to)}
        return not pending and len(ids) >= count

    eventually(delivered, what=f"{count} deliveries")


@pytest.fixture(params=GUARANTEES)
def installation(run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    with run("last-order", env=lambda _: {"DELAY_GUARANTEE": request.param}, balanced=False) as made:
        yield made
        # At least once, a step's events stay when a kill cuts it off, and the next one may read in another order.
        cut_off = _IDS if request.param == "at_least_once" else 0
        Account.settled(made.bootstrap, made.app_id, cut_off=cut_off)


def new_sender(installation: Installation, ahead_s: float) -> Sender:
    due = now_ms() + int(ahead_s * 1000 * crowd())
    return Sender(installation.requests, installation.topic(4), due, due + 2_000)


@pytest.mark.slow
def test_the_last_command_applies_after_an_outage(installation: Installation) -> None:
    installation.worker.kill()
    sender = new_sender(installation, 12)
    send_all(sender, lambda: time.sleep(_GAP_S))
    installation.worker.start().wait_ready()
    await_the_last(installation, sender)

    assert wrong(installation, sender) == dict.fromkeys((case.name for case in CASES), 0)
    Account.settled(installation.bootstrap, installation.app_id)


@pytest.mark.slow
def test_the_last_command_applies_while_workers_die_and_partitions_move(
    installation: Installation, tmp_path: Path
) -> None:
    second = Worker(installation.bootstrap, installation.app_id, tmp_path / "second", env=installation.worker.env)
    sender = new_sender(installation, 16)
    faults: Iterator[Callable[[], object]] = iter(
        [second.start, installation.worker.kill, installation.worker.start, second.kill]
    )

    def go_wrong() -> None:
        next(faults)()
        time.sleep(0.2)

    with second:
        send_all(sender, go_wrong)
        second.start().wait_ready()
        installation.worker.wait_ready()
        await_the_last(installation, sender)

    assert wrong(installation, sender) == dict.fromkeys((case.name for case in CASES), 0)


@pytest.mark.slow
def test_a_zombie_and_an_overtaking_command_have_no_effect(installation: Installation, tmp_path: Path) -> None:
    """The first worker stands still while the second takes its partitions and the last orders, and goes on then."""
    first, requests, to = installation.worker, installation.requests, installation.topic()
    second = Worker(installation.bootstrap, installation.app_id, tmp_path / "second", env=first.env)
    due, ids = now_ms() + int(14_000 * crowd()), [installation.new_id(home=number % 4) for number in range(_IDS)]
    for id_ in ids:
        requests.schedule(id_, due, to, b"1")
    requests.flush()
    installation.await_event("accepted", *ids)
    with second:
        second.start()
        os.kill(first.pid, signal.SIGSTOP)
        try:
            for id_ in ids:  # the replacement goes a long way, the last order straight home
                requests.schedule(id_, due, to, b"2", partition=(home_partition(id_, (), PARTITIONS) + 1) % PARTITIONS)
            requests.flush()
            time.sleep(_NEXT_S)
            for number, id_ in enumerate(ids):
                requests.cancel(id_) if number % 2 else requests.reschedule(id_, due + 1_000)
            requests.flush()
            eventually(lambda: len(second.assigned) == PARTITIONS, what="all partitions of the second worker")
        finally:
            os.kill(first.pid, signal.SIGCONT)
        moved = ids[::2]
        installation.await_event("delivered", *moved, seconds=40)
        # A transaction's markers reach its topics one after the other; the events' marker may be first.
        eventually(lambda: set(moved) <= _ids(installation, to), what="all that was moved")
        records = list(read(installation.bootstrap, to))
        if first.failed:
            first.start().wait_ready()

    found = sorted((record.header("delay-id"), record.value, int(record.header("delay-due"))) for record in records)
    expected = sorted((id_, b"2", due + 1_000) for id_ in moved)
    assert (found if installation.worker.env["DELAY_GUARANTEE"] == "exactly_once" else sorted(set(found))) == expected


def _ids(installation: Installation, topic: str) -> set[str]:
    return {record.header("delay-id") for record in read(installation.bootstrap, topic)}


def test_orders_that_follow_each_other_at_once_hold(installation: Installation) -> None:
    """A replacement takes the way through another partition, its cancel goes straight home."""
    to, requests, due = installation.topic(), installation.requests, now_ms() + int(4_000 * crowd())
    ids = [installation.new_id(home=0) for _ in range(_IDS)]
    for id_ in ids:
        requests.schedule(id_, due, to, b"1", partition=0)
        requests.flush()
        requests.schedule(id_, due, to, b"2", partition=1)
        requests.flush()
        requests.cancel(id_, partition=0)
        requests.flush()
        time.sleep(0.02)
    time.sleep(max(0.0, (due + 1_000 - now_ms()) / 1000))
    requests.schedule("end", now_ms(), to, b"end")
    requests.flush()
    eventually(lambda: "end" in _ids(installation, to), what="the end")

    late = _acked_in_the_same_millisecond(installation, ids)
    assert _ids(installation, to) - late == {"end"}
    Account.settled(installation.bootstrap, installation.app_id)


def _acked_in_the_same_millisecond(installation: Installation, ids: list[str]) -> set[str]:
    """Return the ids whose last two orders have the same stamp: their partitions sort them."""
    stamps: dict[str, list[int]] = {}
    for record in sorted(read(installation.bootstrap, installation.requests.topic), key=lambda one: one.timestamp_ms):
        stamps.setdefault(record.header("delay-id"), []).append(record.timestamp_ms)
    return {id_ for id_ in ids if stamps[id_][-1] == stamps[id_][-2]}


def test_an_older_request_that_comes_after_the_delivery_of_a_newer_one_is_not_delivered_too(
    installation: Installation,
) -> None:
    to, requests, id_ = installation.topic(), installation.requests, installation.new_id(home=0)
    asked_ms = now_ms()
    requests.schedule(id_, now_ms() + 100, to, b"newer", partition=0)
    requests.flush()
    installation.wait_for(to, 1)
    requests.schedule(id_, now_ms() + 100, to, b"older", partition=1, asked_at=str(asked_ms - 1_000))
    requests.flush()
    installation.await_event("replaced", id_)

    assert [record.value for record in read(installation.bootstrap, to)] == [b"newer"]
