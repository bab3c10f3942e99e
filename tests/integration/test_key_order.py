"""`order="key"`: none of ten thousand keys is ever handled out of order, whichever consumer is killed, comes or
goes."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

from tests.harness.pace import Stopwatch
from tests.harness.waiting import eventually
from tests.integration.conftest import Run
from tests.integration.faust_app import FaustApp
from tests.integration.installation import Installation

pytestmark = pytest.mark.core

KEYS, EVENTS, PARTITIONS = 10_000, 3, 4
#: How many of a hundred events fail, once or twice.
FAILING = 2


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("key-order") as made:
        yield made


def app(installation: Installation, to: str, done: Path, name: str, max_attempts: int = 9) -> FaustApp:
    return FaustApp(
        installation, to, str(done), max_attempts=max_attempts, base="100ms", program="ordered_app", name=name
    )


def histories(done: Path) -> dict[str, list[int]]:
    """Return the numbers of the events of each key as they were handled."""
    found = defaultdict[str, list[int]](list)
    if done.exists():
        for line in done.read_text("utf-8").rpartition("\n")[0].splitlines():  # the last one may be half written
            key, number = line.split()
            found[key].append(int(number))
    return found


def await_count(done: Path, events: int) -> None:
    """Wait until `events` different events have been handled."""
    eventually(lambda: sum(len(set(one)) for one in histories(done).values()) >= events, 120, f"{events} events")


def test_no_key_is_ever_out_of_order(installation: Installation, tmp_path: Path) -> None:
    to, done, random = installation.topic(partitions=PARTITIONS), tmp_path / "done", Random(11)  # noqa: S311 - no secret
    producer = Producer({"bootstrap.servers": installation.bootstrap, "linger.ms": 20})
    for turn in range(EVENTS):
        for key in range(KEYS):
            fails = random.randint(1, 2) if random.randrange(100) < FAILING else 0
            headers: list[tuple[str, bytes]] = [("fails", b"%d" % fails)]
            producer.produce(to, b"%d" % turn, b"k%d" % key, headers=headers)
            producer.poll(0)
    assert not producer.flush(60)

    with app(installation, to, done, "first") as first, app(installation, to, done, "second") as second:
        for share, gone in ((3, first), (8, second), (13, first), (18, second)):
            await_count(done, share * KEYS // 10)
            gone.kill()
            gone.start()
        await_count(done, 22 * KEYS // 10)
        assert first.stop() == 0  # leaves the group
        await_count(done, EVENTS * KEYS)

    for name, handled in sorted(histories(done).items()):
        first_times = list(dict.fromkeys(handled))
        assert first_times == list(range(EVENTS)), f"{name} was handled as {handled}"


def test_the_last_failure_is_a_dead_letter_and_the_next_event_of_its_key_comes(
    installation: Installation, tmp_path: Path
) -> None:
    to, done = installation.topic(), tmp_path / "done"
    for number, fails in enumerate((0, 9, 0)):
        installation.requests.send({"fails": str(fails)}, b"k", b"%d" % number, topic=to)
    installation.requests.flush()
    with app(installation, to, done, "only", max_attempts=3):
        eventually(lambda: histories(done).get("k") == [0, 2], what="the event after it")

    [letter] = installation.dead_letters(b"k").values()
    assert letter.header("delay-reason") == "attempts-exhausted"
    assert "3 attempts have failed" in letter.header("delay-error")
    assert "the last with: ValueError: number 1 fails" in letter.header("delay-error")


def test_an_unexpected_error_ends_the_app_and_no_later_event_is_handled(
    installation: Installation, tmp_path: Path
) -> None:
    to, done = installation.topic(), tmp_path / "done"
    for number in range(3):
        headers = {"fails": "1", "badly": "yes"} if number == 1 else {"fails": "0"}
        installation.requests.send(headers, b"k", b"%d" % number, topic=to)
    installation.requests.flush()
    with app(installation, to, done, "badly") as only:
        eventually(lambda: not only.alive, what="its end")
        assert "nobody has thought of this" in only.log
        assert histories(done)["k"] == [0]
        only.kill()
        only.start()
        # The group waits a minute for a member that ended without leaving.
        eventually(lambda: not only.alive, 150, "its end, again")

    assert set(histories(done)["k"]) == {0}


def test_an_event_held_for_an_hour_does_not_block_others(installation: Installation, tmp_path: Path) -> None:
    to, done = installation.topic(partitions=PARTITIONS), tmp_path / "done"

    def put(number: int) -> None:
        for key in range(40):
            fails = "9" if not key else "0"  # the first event of a key fails in each process
            installation.requests.send({"fails": fails}, b"h%d" % key, b"%d" % number, topic=to)
        installation.requests.flush()

    held_by = FaustApp(installation, to, str(done), max_attempts=9, base="1h", program="ordered_app", name="held")
    joins = FaustApp(installation, to, str(done), max_attempts=9, base="1h", program="ordered_app", name="joins")
    with held_by, joins:
        put(0)
        await_count(done, 39)
        put(1)
        await_count(done, 39 * 2)
        with Stopwatch() as watch:
            assert held_by.stop() == 0
        assert watch.seconds < 20, "it waits for the held event"
        put(2)
        await_count(done, 39 * 3)

    assert {name: list(dict.fromkeys(numbers)) for name, numbers in histories(done).items()} == {
        f"h{key}": [0, 1, 2] for key in range(1, 40)
    }
