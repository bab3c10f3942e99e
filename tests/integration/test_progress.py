"""The progress records: their shape, and that they are true."""

import itertools
import json
from collections import defaultdict

import pytest

from tests.harness.kafka import Record, ends, now_ms, read
from tests.harness.pace import usual_ms
from tests.harness.waiting import ask_until, crowd, eventually
from tests.integration.installation import PARTITIONS, Event, Installation

pytestmark = pytest.mark.core

FIELDS: dict[str, type | tuple[type, ...]] = {
    "partition": int,
    "at": int,
    "fired_to": int,
    "read_to": dict,
    "reads": int,
    "rows": int,
    "positions": dict,
    "pending": dict,
    "overdue": int,
    "next_due": (int, type(None)),
    "held": dict,
    "lateness": dict,
    "worker": str,
    "version": str,
    "settings": dict,
}


def reports(installation: Installation) -> list[tuple[Record, Event]]:
    records = read(installation.bootstrap, f"{installation.app_id}-progress")
    return [(record, json.loads(record.value or b"")) for record in records]


def test_a_progress_record_has_the_fields_of_the_contract(installation: Installation) -> None:
    eventually(lambda: len(installation.progress()) == PARTITIONS, what="a report of each partition")
    for record, report in reports(installation):
        assert set(report) == set(FIELDS)
        assert all(isinstance(report[name], kind) for name, kind in FIELDS.items())
        assert record.key == str(report["partition"]).encode()
        assert report["worker"] == installation.worker.url
        assert abs(usual_ms(report["at"], record.timestamp_ms)) < 1_000


def test_progress_comes_every_second(installation: Installation) -> None:
    eventually(lambda: len(reports(installation)) >= 4 * PARTITIONS, what="the fourth report")
    times = sorted(record.timestamp_ms for record, report in reports(installation) if report["partition"] == 0)
    assert all(usual_ms(earlier, later) < 2_000 for earlier, later in itertools.pairwise(times))


def test_progress_has_the_pending_messages_and_the_positions(installation: Installation) -> None:
    to, other, due = installation.topic(), installation.topic(), now_ms() + 3_600_000
    for number in range(30):
        installation.requests.send({"delay-to": to, "delay-at": str(due + number)}, None, b"", partition=1)
    installation.requests.send({"delay-to": other, "delay-at": str(due)}, None, b"", partition=1)
    installation.requests.flush()
    end = ends(installation.bootstrap, installation.requests.topic)[1]

    def report() -> Event:
        return installation.progress()[1]

    said = ask_until(report, lambda said: said["positions"].get(installation.requests.topic) == end, "progress")
    assert said["pending"] == {to: 30, other: 1}
    assert (said["next_due"], said["overdue"], said["held"]) == (due, 0, {})
    last = report()
    assert last["fired_to"] <= last["at"]
    assert usual_ms(last["fired_to"], now_ms()) < 3_000


def test_messages_due_by_fired_to_have_been_settled(installation: Installation) -> None:
    # All messages are there before the first is due: a late one would set the report back.
    to, first = installation.topic(2), now_ms() + int(3_000 * crowd())
    for number in range(6_000):
        due, partition = first + (number * 7919) % 4_000, number % PARTITIONS
        headers = {"delay-to": to, "delay-at": str(due)}
        installation.requests.send(headers, b"%d" % number, b"", partition=partition)
    installation.requests.flush()
    delivered = installation.wait_for(to, 6_000)

    by_partition: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for record in delivered:
        _, source, offset = record.header("delay-source").rsplit("-", 2)
        by_partition[int(source)].append((int(record.header("delay-due")), int(offset), record.timestamp_ms))
    looked_at = 0
    fired_to: dict[int, int] = defaultdict(int)
    for record, report in reports(installation):
        number, until = report["partition"], report["fired_to"]
        position = report["positions"].get(installation.requests.topic, 0)
        dealt_with = [at for due, offset, at in by_partition[number] if due <= until and offset < position]
        assert all(at <= record.timestamp_ms for at in dealt_with)
        looked_at += len(dealt_with)
        assert until >= fired_to[number]
        fired_to[number] = until
    assert looked_at > 1_000


def test_lateness_counts_each_delivery_of_the_last_minute(installation: Installation) -> None:
    to = installation.topic()
    for number in range(100):
        installation.requests.send({"delay-to": to, "delay-after": "500"}, None, b"%d" % number)
    installation.requests.flush()
    installation.wait_for(to, 100)

    def counted() -> int:
        return max(int(sum(report["lateness"].values())) for report in installation.progress().values())

    eventually(lambda: counted() >= 100, what="lateness")
    bounds = {bound for report in installation.progress().values() for bound in report["lateness"]}
    assert all(bound == "inf" or bound.isdigit() for bound in bounds)
