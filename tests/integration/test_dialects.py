"""All dialects are inputs of one installation: deliveries are as the original systems would send them.

One record in ten is malformed: it becomes a dead letter with its code, and no other record is lost.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.harness.kafka import Record, create_topic, now_ms, read
from tests.harness.systems import SYSTEMS, Asked, Delivery, named, native_cancel
from tests.harness.waiting import crowd
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation, late_ms, users
from tests.punctual.contract.refused import REFUSED

#: Good records before each malformed one.
GOOD = 9
AHEAD_MS = int(8_000 * crowd())
#: All messages are due in one second, on a machine that may have other work.
BURST_MS = 10_000


CASES = {name: {case: each for case, each in cases.items() if not each.setting} for name, cases in REFUSED.items()}
every_dialect = pytest.mark.parametrize("name", SYSTEMS)


def input_of(app_id: str, name: str) -> str:
    return f"{app_id}-in-{name}"


def destination_of(app_id: str, name: str) -> str:
    return f"{app_id}-to-{name}"


@pytest.fixture(scope="module", params=[pytest.param("at_least_once", marks=pytest.mark.core), "exactly_once"])
def installation(bootstrap: str, run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    def before(app_id: str) -> None:
        for name in SYSTEMS:
            create_topic(bootstrap, destination_of(app_id, name), 2)

    def env(app_id: str) -> dict[str, str]:
        inputs = (
            f"{input_of(app_id, name)}={system.setting.replace('*', destination_of(app_id, name))}"
            for name, system in SYSTEMS.items()
        )
        usual = {"DELAY_DESTINATIONS": f"{app_id}-to-*", "DELAY_GUARANTEE": request.param}
        return {"DELAY_INPUTS": ",".join(inputs), **usual}

    with run("dialects", before=before, env=env) as made:
        yield made


class Sent(NamedTuple):
    due_ms: int
    #: Of each dialect the requests by their source, and the case that each malformed one is.
    requests: dict[str, dict[str, Record]]
    malformed: dict[str, dict[str, str]]
    dead_letters: dict[str, Record]


@pytest.fixture(scope="module")
def sent(installation: Installation) -> Sent:
    """Each malformed record comes after nine good ones, in bursts of all inputs side by side."""
    due_ms = (now_ms() + AHEAD_MS) // 1_000 * 1_000
    malformed: dict[str, dict[str, str]] = {}
    for name, system in SYSTEMS.items():
        topic, to = input_of(installation.app_id, name), destination_of(installation.app_id, name)
        ends, malformed[name] = Counter[int](), {}
        for number, (case, wrong) in enumerate(CASES[name].items()):
            partition = number % PARTITIONS
            good = [system.ask(number * GOOD + each, to, due_ms) for each in range(GOOD)]
            for asked in (*good, Asked(list(wrong.record.headers), wrong.record.key, wrong.record.value)):
                installation.requests.send(asked.headers, asked.key, asked.value, topic=topic, partition=partition)
                ends[partition] += 1
            malformed[name][f"{topic}-{partition}-{ends[partition] - 1}"] = case
    installation.requests.flush()
    assert now_ms() < due_ms
    count = sum(map(len, malformed.values()))
    letters = installation.letters(count)
    requests = {
        name: {record.source: record for record in read(installation.bootstrap, input_of(installation.app_id, name))}
        for name in SYSTEMS
    }
    return Sent(due_ms, requests, malformed, {letter.header("delay-source"): letter for letter in letters})


@every_dialect
def test_deliveries_are_on_time_and_as_their_own_system_makes_them(
    name: str, sent: Sent, installation: Installation
) -> None:
    good = sent.requests[name].keys() - sent.malformed[name].keys()
    deliveries = installation.wait_for(destination_of(installation.app_id, name), len(good), 60)

    assert sorted(record.header("delay-source") for record in deliveries) == sorted(good), "each request once"
    for record in deliveries:
        expected = SYSTEMS[name].delivery(sent.requests[name][record.header("delay-source")])
        due_ms = int(record.header("delay-due"))
        assert name == "countdown" or due_ms == sent.due_ms
        assert Delivery(due_ms, record.key, record.value, users(record.headers)) == expected
        assert [header for header, _ in record.headers[-3:]] == ["delay-id", "delay-due", "delay-source"]
        assert 0 <= late_ms(record) <= BURST_MS
        assert name != "karafka" or record.partition == 1


@every_dialect
def test_a_malformed_record_becomes_an_unchanged_dead_letter_with_its_code(name: str, sent: Sent) -> None:
    for source, case in sent.malformed[name].items():
        letter, wrong = sent.dead_letters[source], CASES[name][case]
        assert (letter.header("delay-reason"), case) == (wrong.reason, case)
        assert wrong.says in letter.header("delay-error")
        assert (letter.key, letter.value) == (wrong.record.key, wrong.record.value)
        assert letter.headers[:-3] == list(wrong.record.headers)


def test_one_record_in_ten_was_malformed_and_no_other_is_a_dead_letter(sent: Sent, installation: Installation) -> None:
    total, wrong = sum(map(len, sent.requests.values())), sum(map(len, sent.malformed.values()))

    assert total == (GOOD + 1) * wrong
    assert len(installation.letters(wrong)) == len(sent.dead_letters) == wrong


@every_dialect
def test_a_message_is_cancelled_in_its_own_way_or_natively(name: str, installation: Installation) -> None:
    far_ms, number = now_ms() // 1_000 * 1_000 + 3_600_000, 1_000_000 + list(SYSTEMS).index(name)
    system, topic = SYSTEMS[name], input_of(installation.app_id, name)
    asked = system.ask(number, destination_of(installation.app_id, name), far_ms)
    keyed = system.cancel is not native_cancel
    if not keyed:
        asked.headers.append(("delay-id", named("far", number)))
    if name == "countdown":
        asked = asked._replace(value=(asked.value or b"").replace(b"1.25", b"3600"))
    cancel = system.cancel(number)
    installation.requests.send(asked.headers, asked.key, asked.value, topic=topic, partition=0)
    installation.requests.send(cancel.headers, cancel.key, cancel.value, topic=topic, partition=0)
    installation.requests.flush()

    id_ = named(name if keyed else "far", number).decode()
    assert installation.await_event("cancelled", id_)[id_]["source"].startswith(topic)
