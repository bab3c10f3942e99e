"""A sender that floods its own input: messages of other namespaces are as punctual as without it."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.harness.kafka import now_ms
from tests.harness.waiting import LIMIT_S
from tests.integration.conftest import Run
from tests.integration.installation import Installation, late_ms

#: A flood that keeps a worker busy for longer than messages wait for unread input, because recurring requests are read
#: one at a time; and messages of the other namespace that are due in the meantime.
FLOOD, MESSAGES, APART_MS = 200_000, 600, 20
#: When these begin to be due: they are accepted by then.
AHEAD_MS = 5_000
#: What steps with many requests may add to the lateness of everything in the process; the wait was seconds.
STEPS_MS = 500
TEAMS = ("quiet", "loud")


@pytest.fixture
def installation(run: Run) -> Iterator[Installation]:
    """One with an input for each team, and one partition, so that forwards, which all teams share, are empty."""

    def env(app_id: str) -> dict[str, str]:
        return {
            "DELAY_INPUTS": ",".join(f"{app_id}-{team}=native" for team in TEAMS),
            "DELAY_NAMESPACES": ",".join(f"{app_id}-{team}={team}" for team in TEAMS),
        }

    with run("floods", env=env, partitions=1, balanced=False) as made:
        yield made


def flood(installation: Installation, to: str) -> None:
    """Send many recurring messages by one input, all at once."""
    room = {"queue.buffering.max.messages": FLOOD}
    producer = Producer(
        {"bootstrap.servers": installation.bootstrap, "linger.ms": 20, "compression.type": "lz4", **room}
    )
    for number in range(FLOOD):
        headers = {"delay-to": to, "delay-id": f"{number}", "delay-cron": "0 0 * * *", "delay-zone": "Europe/Vienna"}
        producer.produce(f"{installation.app_id}-loud", b"", headers=headers)
    assert producer.flush(5 * LIMIT_S) == 0


def schedule(installation: Installation, name: str) -> str:
    """Have the quiet namespace's messages accepted, and return where they are going to."""
    to, first = installation.topic(message_timestamp_type="LogAppendTime"), now_ms() + AHEAD_MS
    names = [f"{name}-{number}" for number in range(MESSAGES)]
    for number, id_ in enumerate(names):
        headers = {"delay-to": to, "delay-id": id_, "delay-at": f"{first + number * APART_MS}"}
        installation.requests.send(headers, topic=f"{installation.app_id}-quiet")
    installation.requests.flush()
    installation.await_event("accepted", *(f"quiet/{id_}" for id_ in names))
    return to


def p99_ms(installation: Installation, to: str) -> int:
    """Wait for the quiet namespace's messages, and return their lateness."""
    late = sorted(map(late_ms, installation.wait_for(to, MESSAGES, 60)))
    return late[len(late) * 99 // 100]


@pytest.mark.slow
def test_one_namespace_floods_its_input_and_another_stays_punctual(installation: Installation) -> None:
    quiet = p99_ms(installation, schedule(installation, "before"))
    to = schedule(installation, "meanwhile")
    flood(installation, installation.topic())
    flooded = p99_ms(installation, to)

    waited = f"due messages of the namespace {TEAMS[1]} wait"
    assert waited in installation.worker.log, "a partition was behind its flooded input for longer than the margin"
    assert flooded <= 1.5 * quiet + STEPS_MS, (quiet, flooded)
