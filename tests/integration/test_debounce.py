"""Ids that are pushed back again and again: each is due within its bound, with the last payload before then.

The long form is a thousand ids for a minute, by `make test NAME=debounce`.
"""

import logging
import os
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.harness.account import Account, pending_of
from tests.harness.kafka import Record, Requests, create_topic, read
from tests.harness.waiting import crowd, eventually
from tests.harness.worker import Worker, await_sharing
from tests.integration.installation import new_app_id, topics_removed

log = logging.getLogger(__name__)

#: How often, and by how much, each id is pushed back.
_EVERY_S, _BACK_MS = 0.1, 1_500
#: By then a worker knows an acknowledged request; and a worker that takes a partition over and catches up does.
_KNOWN_MS, _READ_MS = 3_000, 10_000
#: How long a busy machine may take until all requests are done.
_DRAIN_S = 300


@dataclass
class Form:
    """How much is done."""

    ids: int
    seconds: float
    bound_ms: int


LONG = bool(os.environ.get("PUNCTUAL_LONG"))
FORM = Form(1_000, 60.0, 10_000) if LONG else Form(50, 9.0, 3_000)


@dataclass
class Life:
    """The requests of an id by their numbers: when each was appended. And the deliveries, by the number of each."""

    stamps: dict[int, int] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)
    deliveries: dict[int, list[Record]] = field(default_factory=lambda: defaultdict(list))


def push_back(requests: Requests, to: str, form: Form) -> int:
    """Replace each id's message again and again; return how often."""
    began, number = time.monotonic(), 0
    while time.monotonic() < began + form.seconds:
        for one in range(form.ids):
            headers = [("delay-no-later", str(form.bound_ms)), ("delay-after", str(_BACK_MS))]
            said = [("delay-id", f"id-{one}"), ("delay-to", to), *headers]
            requests.send(said, f"id-{one}".encode(), str(number).encode())
        requests.flush()
        number += 1
        time.sleep(max(0.0, began + number * _EVERY_S - time.monotonic()))
    return number


def disturb(form: Form, first: Worker, second: Worker) -> None:
    """Kill the first worker and start it again; then stop the second, whose partitions move."""
    began = time.monotonic()
    for after, act in ((1 / 4, first.kill), (1 / 3, first.start), (2 / 3, second.stop)):
        time.sleep(max(0.0, began + form.seconds * after - time.monotonic()))
        act()


def lives(bootstrap: str, app_id: str, to: str) -> dict[str, Life]:
    """Return the requests and the deliveries by id."""
    found: dict[str, Life] = defaultdict(Life)
    for record in read(bootstrap, f"{app_id}-requests"):
        life, number = found[record.header("delay-id")], int(record.value or b"")
        life.stamps[number], life.sources[number] = record.timestamp_ms, record.source
    for record in read(bootstrap, to):
        found[record.header("delay-id")].deliveries[int(record.value or b"")].append(record)
    return found


def check(life: Life, form: Form, guarantee: str) -> Counter[str]:
    """Check that each delivery of an id was due within its life's bound; return how many there were by kind."""
    known_ms, read_ms = _KNOWN_MS * crowd(), _READ_MS * crowd()
    numbers = sorted(life.deliveries)
    assert numbers[-1] == max(life.stamps), "the last payload was delivered in the end"
    first, found = 0, Counter(deliveries=len(numbers))
    for number in numbers:
        copies = life.deliveries[number]
        assert {copy.header("delay-source") for copy in copies} == {life.sources[number]}
        asked_ms, bound_ms = life.stamps[number] + _BACK_MS, life.stamps[first] + form.bound_ms
        found += Counter(duplicates=len(copies) - 1, bounded=int(bound_ms < asked_ms))
        for copy in copies:
            due_ms = int(copy.header("delay-due"))
            assert due_ms <= min(asked_ms, bound_ms)
            if guarantee == "exactly_once":
                assert due_ms == min(asked_ms, bound_ms), "a life begins after the delivery before"
            assert copy.timestamp_ms >= due_ms, "never early"
            # A request acknowledged well before was known: it would have been delivered instead.
            later = life.stamps.get(number + 1)
            assert later is None or later > max(due_ms - known_ms, copy.timestamp_ms - read_ms)
        first = number + 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_ids_that_are_pushed_back_are_due_within_their_bound_with_the_last_payload(
    bootstrap: str, tmp_path: Path, guarantee: str
) -> None:
    app_id = new_app_id("debounce")
    to = f"{app_id}-to"
    create_topic(bootstrap, to, 4)
    env = {"DELAY_GUARANTEE": guarantee}
    workers = [Worker(bootstrap, app_id, tmp_path / f"w{number}", env=env) for number in range(2)]
    with topics_removed(bootstrap, app_id), workers[0], workers[1]:
        for worker in workers:
            worker.start().wait_ready()
        await_sharing(*workers)
        requests = Requests(bootstrap, app_id)
        with ThreadPoolExecutor(1) as pool:
            disturbed = pool.submit(disturb, FORM, *workers)
            pushed = push_back(requests, to, FORM)
            disturbed.result()
        eventually(lambda: not sum(pending_of(bootstrap, app_id).values()), _DRAIN_S, "the end of all lives")
        account = Account.settled(bootstrap, app_id)
        found = lives(bootstrap, app_id, to)
        assert len(found) == FORM.ids
        counts = sum((check(life, FORM, guarantee) for life in found.values()), Counter[str]())
        assert counts["bounded"] >= FORM.ids, "a bound has decided for each, before it was quiet"
        assert not counts["duplicates"] or guarantee == "at_least_once"
        assert account.sums["accepted"] == pushed * FORM.ids
        log.info("%s: %d requests, %s", guarantee, pushed * FORM.ids, dict(counts))
