"""The verdict counts every violation: the test itself writes records that no worker may write."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.chaos.traffic import Kind, Story, Traffic
from tests.chaos.verdict import judge
from tests.harness.case import Case
from tests.harness.kafka import create_topic, now_ms
from tests.harness.waiting import LIMIT_S

LONG_AGO, AHEAD = 1_000, 4_000_000_000_000


class Hand:
    """Writes a worker's records."""

    def __init__(self, bootstrap: str, traffic: Traffic) -> None:
        self._traffic = traffic
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def accept(self, id_: str, kind: Kind = Kind.PLAIN, due: int = LONG_AGO, then: int = 0, command: int = 0) -> None:
        """Add a story to the traffic, with a command acknowledged at `command` if given, and write the `accepted`
        event."""
        self._traffic.stories[id_] = Story(
            kind, self._traffic.outs[0], due, acked=True, then_ms=then, command_ms=command
        )
        self.tell(id_, "accepted")

    def tell(self, id_: str, event: str) -> None:
        """Write an event."""
        said = {"event": event, "id": id_, "source": f"requests-0-{id_}"}
        self._producer.produce(f"{self._traffic.app_id}-events", json.dumps(said).encode(), id_)

    def deliver(self, id_: str, due: int = LONG_AGO, revision: int = 0, value: bytes | None = None) -> None:
        """Write a delivery and its event."""
        headers: list[tuple[str, bytes | str | None]] = [
            ("delay-id", id_),
            ("delay-due", str(due)),
            ("delay-source", f"requests-0-{id_}"),
        ]
        self._producer.produce(self._traffic.outs[0], value or self._traffic.value(id_, revision), id_, headers=headers)
        self.tell(id_, "delivered")

    def flush(self) -> None:
        """Wait until Kafka has all records."""
        assert not self._producer.flush(LIMIT_S)


@pytest.fixture
def traffic(bootstrap: str, tmp_path: Path) -> Iterator[Traffic]:
    """Traffic without its sending thread."""
    case = Case(bootstrap, tmp_path)
    for topic in ("events", "progress", "dead-letters"):
        create_topic(bootstrap, f"{case.app_id}-{topic}")
    yield Traffic(bootstrap, case.app_id, [case.out], 2, 1, random.Random(1))  # noqa: S311 - it makes no choice here
    case.remove()


@pytest.fixture
def hand(traffic: Traffic) -> Hand:
    """A hand with one good message behind it."""
    made = Hand(traffic.bootstrap, traffic)
    made.accept("good")
    made.deliver("good")
    return made


def counts(traffic: Traffic, hand: Hand) -> dict[str, int]:
    """Return the counts that are wrong."""
    hand.flush()
    found = judge(traffic, [])
    usual = {"messages", "commands", "poisoned", "delivered", "p99_ms", "longest_ms"}
    return {name: count for name, count in found.counts().items() if count and name not in usual}


@pytest.mark.kafka
def test_a_healthy_run_has_no_findings(traffic: Traffic, hand: Hand) -> None:
    hand.accept("cancelled", Kind.CANCEL, due=AHEAD, command=now_ms())
    hand.tell("cancelled", "cancelled")
    assert counts(traffic, hand) == {}


@pytest.mark.kafka
def test_each_fault_is_counted_under_its_name(traffic: Traffic, hand: Hand) -> None:
    hand.accept("lost")
    hand.tell("lost", "delivered")
    assert counts(traffic, hand) == {"lost": 1}

    hand.deliver("lost")
    hand.deliver("good")
    assert counts(traffic, hand) == {"duplicates": 1}

    hand.accept("early", due=AHEAD)
    hand.deliver("early", AHEAD)
    assert counts(traffic, hand) == {"duplicates": 1, "early": 1}


@pytest.mark.kafka
def test_what_no_longer_was_to_come_is_revived(traffic: Traffic, hand: Hand) -> None:
    due = now_ms()
    hand.accept("cancelled", Kind.CANCEL, due=due, command=due - 6_000)
    hand.accept("in-time", Kind.CANCEL, due=due, command=due - 4_000)
    hand.accept("replaced", Kind.REPLACE, due=due, then=due + 1, command=due - 6_000)
    for id_ in ("cancelled", "in-time", "replaced"):
        hand.deliver(id_, due)
    assert counts(traffic, hand) == {"revived": 2}


@pytest.mark.kafka
def test_other_bytes_and_strangers_are_altered(traffic: Traffic, hand: Hand) -> None:
    hand.accept("changed")
    hand.deliver("changed", value=b"other")
    hand.deliver("stranger")
    hand.tell("stranger", "accepted")
    assert counts(traffic, hand) == {"altered": 2}


@pytest.mark.kafka
def test_an_account_that_does_not_balance_is_seen(traffic: Traffic, hand: Hand) -> None:
    hand.accept("twice-ended")
    hand.deliver("twice-ended")
    hand.tell("twice-ended", "cancelled")
    assert counts(traffic, hand) == {"double_endings": 1}
    hand.tell("unheard-of", "cancelled")
    traffic.poisoned["malformed"] = 1
    assert counts(traffic, hand)["unbalanced"] == 3


@pytest.mark.kafka
def test_an_open_transaction_is_seen(traffic: Traffic, hand: Hand) -> None:
    writer = Producer({"bootstrap.servers": traffic.bootstrap, "transactional.id": traffic.app_id, "log_level": 0})
    writer.init_transactions()
    writer.begin_transaction()
    writer.produce(traffic.outs[0], b"open")
    writer.flush(LIMIT_S)
    assert counts(traffic, hand) == {"hanging": 1}
    writer.abort_transaction()
    assert counts(traffic, hand) == {}
