"""Destinations on another cluster get their messages, and delay no others while that cluster is down."""

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from app.dev.broker import Broker, properties
from app.dev.broker.errors import BrokerError
from tests.harness.kafka import create_topic, delete_topic, ends, now_ms, read
from tests.harness.waiting import LIMIT_S, crowd, eventually
from tests.integration.conftest import Run
from tests.integration.installation import ON_TIME_MS, Installation, late_ms, new_app_id, wait_for

GIVE_UP_S = 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A second cluster, which creates missing topics automatically."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(properties._FOR_DEVELOPMENT, "auto.create.topics.enable", "true")
        with Broker(tmp_path_factory.mktemp("other")) as made:
            yield made


@pytest.fixture(scope="module")
def installation(run: Run, broker: Broker, bootstrap: str) -> Iterator[Installation]:
    clusters = f"other={broker.bootstrap},same={bootstrap}"
    settings = {"DELAY_CLUSTERS": clusters, "DELAY_GIVE_UP": f"PT{GIVE_UP_S}S"}
    with run("clusters", env=lambda _: settings) as made:
        yield made


@pytest.fixture(autouse=True)
def as_before(installation: Installation, broker: Broker) -> Iterator[None]:
    """Leave the other cluster and the worker's settings as the next test expects them."""
    env = dict(installation.worker.env)
    yield
    try:
        broker.check()
    except BrokerError:
        broker.start()
    if installation.worker.env != env:
        installation.worker.stop()
        installation.worker.env = env
        installation.worker.start().wait_ready()


@pytest.fixture
def there(broker: Broker) -> str:
    """A topic on the other cluster."""
    return create_topic(broker.bootstrap, new_app_id("there"), 3)


def send(installation: Installation, to: str, due: int, count: int, *, other: bool = True) -> None:
    """Schedule messages, half a hundredth of a second apart."""
    for number in range(count):
        headers = {"delay-to": to, "delay-at": str(due + 5 * number), "user": "kept"}
        if other:
            headers |= {"delay-to-cluster": "other", "delay-to-partition": "2"}
        installation.requests.send(headers, b"%d" % number, b"%d" % number, partition=1)
    installation.requests.flush()


def ask(installation: Installation, path: str) -> str:
    """Return the answer of the worker's console."""
    with urllib.request.urlopen(f"{installation.worker.url}{path}", timeout=LIMIT_S) as answer:  # noqa: S310 - our own worker
        text: str = answer.read().decode()
        return text


def reach(installation: Installation, broker: Broker, to: str) -> None:
    """Send messages until one comes through: until the worker has found the cluster again, each is given up at once."""
    end = sum(ends(broker.bootstrap, to).values())

    def through() -> bool:
        send(installation, to, 0, 1)
        time.sleep(0.2)
        return sum(ends(broker.bootstrap, to).values()) > end

    eventually(through, what=f"a message for {to}")


def has_all(broker: Broker, to: str, ids: set[str]) -> bool:
    """Whether all `ids` have reached a topic."""
    return ids <= {record.header("delay-id") for record in read(broker.bootstrap, to)}


def test_messages_reach_another_cluster(installation: Installation, broker: Broker, there: str) -> None:
    send(installation, there, now_ms() + 1_000, 100)

    records = wait_for(broker.bootstrap, there, 100)
    assert [record.value for record in records] == [b"%d" % number for number in range(100)]
    assert {record.partition for record in records} == {2}
    assert all(0 <= late_ms(record) <= ON_TIME_MS for record in records)
    assert records[0].headers[0] == ("user", b"kept")


def test_a_cluster_that_makes_up_topics_is_not_made_to(installation: Installation, broker: Broker, there: str) -> None:
    deleted = create_topic(broker.bootstrap, new_app_id("there"), 3)
    send(installation, deleted, now_ms() + int(3_000 * crowd()), 5)  # it is deleted before that
    never_there = new_app_id("there")
    send(installation, never_there, now_ms(), 5)
    delete_topic(broker.bootstrap, deleted)
    send(installation, there, now_ms() + 1_500, 5)

    assert all(late_ms(record) <= ON_TIME_MS for record in wait_for(broker.bootstrap, there, 5))
    dead_letters = installation.letters_for(10, deleted, never_there)
    assert {dead_letter.header("delay-reason") for dead_letter in dead_letters} == {"unknown-topic"}
    assert {dead_letter.header("delay-to-cluster") for dead_letter in dead_letters} == {"other"}
    assert list(read(broker.bootstrap, there))
    missing = {dead_letter.header("delay-to") for dead_letter in dead_letters}
    assert not missing & set(installation.admin(broker.bootstrap).list_topics(timeout=LIMIT_S).topics)


def refused(installation: Installation, *wanted: tuple[str, str]) -> list[tuple[str, str]]:
    """Ask for destinations (cluster, topic); return the reason and the sentence for each, none is taken."""
    for number, (cluster, to) in enumerate(wanted):
        headers = {"delay-to": to, "delay-after": "0", "delay-to-cluster": cluster}
        installation.requests.send(headers, b"%d" % number, b"", partition=1)
    installation.requests.flush()
    found = installation.letters_for(len(wanted), *(to for _, to in wanted))
    return [(dead_letter.header("delay-reason"), dead_letter.header("delay-error")) for dead_letter in found]


def test_our_own_topics_are_internal_under_another_name_of_our_cluster_too(installation: Installation) -> None:
    here = installation.topic()
    installation.requests.send({"delay-to": here, "delay-after": "0", "delay-to-cluster": "same"}, None, b"")
    installation.requests.flush()
    installation.wait_for(here, 1)

    ours = [f"{installation.app_id}-{name}" for name in ("requests", "forwards", "delays-changelog", "progress")]
    found = refused(installation, *(("same", topic) for topic in ours))
    assert [reason for reason, _ in found] == ["not-allowed"] * len(ours)
    assert all("is the installation's own" in sentence for _, sentence in found)


def test_another_installations_topics_are_internal_wherever_it_is(installation: Installation, broker: Broker) -> None:
    theirs, users = new_app_id("shop"), new_app_id("users")
    create_topic(broker.bootstrap, f"{theirs}-delays-changelog")
    for topic in (f"{theirs}-forwards", f"{users}-events"):
        create_topic(broker.bootstrap, topic, 3)
    send(installation, f"{users}-events", now_ms(), 1)
    wait_for(broker.bootstrap, f"{users}-events", 1)

    ((reason, sentence),) = refused(installation, ("other", f"{theirs}-forwards"))
    assert (reason, theirs in sentence) == ("not-allowed", True)


def test_ten_thousand_invented_names_are_refused_and_delay_no_other_request(
    installation: Installation, broker: Broker, there: str
) -> None:
    here, due = installation.topic(), now_ms() + int(5_000 * crowd())
    for number in range(10_000):
        headers = {"delay-to": f"invented-{due}-{number}", "delay-at": str(due)}
        if number % 2:
            headers["delay-to-cluster"] = "other"
        installation.requests.send(headers, None, b"", partition=1)
    send(installation, there, due, 100)
    send(installation, here, due, 100, other=False)

    for bootstrap, to in ((broker.bootstrap, there), (installation.bootstrap, here)):
        assert all(late_ms(record) <= ON_TIME_MS for record in wait_for(bootstrap, to, 100))
    found = installation.letters_for(10_000, *(f"invented-{due}-{number}" for number in range(10_000)))
    assert {dead_letter.header("delay-reason") for dead_letter in found} <= {"unknown-topic", "not-allowed"}
    assert installation.worker.alive


def test_a_cluster_that_hangs_holds_up_no_other_and_gets_all_in_order_later(
    run: Run, broker: Broker, there: str
) -> None:
    # Messages do not expire: how long the other cluster hangs depends on this machine.
    with run("hangs", env=lambda _: {"DELAY_CLUSTERS": f"other={broker.bootstrap}"}) as installation:
        here, count, due = installation.topic(), 400, now_ms() + int(1_000 * crowd())
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            send(installation, there, due, count)
            send(installation, here, due, count, other=False)
            records = installation.wait_for(here, count)
        finally:
            os.kill(broker.pid, signal.SIGCONT)

        lateness = sorted(late_ms(record) for record in records)
        assert lateness[0] >= 0
        assert lateness[count * 99 // 100] < 500, lateness[-20:]
        held = wait_for(broker.bootstrap, there, count)
        assert [record.value for record in held] == [b"%d" % number for number in range(count)]


def test_messages_that_a_cluster_refuses_for_longer_than_allowed_are_undeliverable(
    installation: Installation, broker: Broker, there: str
) -> None:
    """One topic is known to the worker before the cluster goes away, the other isn't."""
    known, here = create_topic(broker.bootstrap, new_app_id("there"), 3), installation.topic()
    send(installation, known, now_ms(), 1)
    wait_for(broker.bootstrap, known, 1)
    broker.stop()
    count, due = 100, now_ms() + int(1_000 * crowd())
    send(installation, there, due, count)
    send(installation, known, due, count)
    send(installation, here, due, count, other=False)
    assert all(late_ms(record) <= ON_TIME_MS for record in installation.wait_for(here, count))

    dead_letters = installation.letters_for(2 * count, there, known)
    assert {dead_letter.header("delay-reason") for dead_letter in dead_letters} == {"undeliverable"}
    assert all("DELAY_GIVE_UP" in dead_letter.header("delay-error") for dead_letter in dead_letters)
    assert min(dead_letter.timestamp_ms - due for dead_letter in dead_letters) >= GIVE_UP_S * 1000
    for to in (there, known):
        values = [int(dead_letter.value or b"") for dead_letter in dead_letters if dead_letter.header("delay-to") == to]
        assert sorted(values) == list(range(count))

    broker.start()
    for to in (there, known):
        reach(installation, broker, to)
    for dead_letter in dead_letters:
        installation.requests.send(dead_letter.headers, dead_letter.key, dead_letter.value, partition=1)
    installation.requests.flush()
    for to in (there, known):
        ids = {dead_letter.header("delay-id") for dead_letter in dead_letters if dead_letter.header("delay-to") == to}
        eventually(partial(has_all, broker, to, ids))


def test_a_worker_can_start_while_a_cluster_is_away(installation: Installation, broker: Broker, there: str) -> None:
    here, due = installation.topic(), now_ms()
    broker.stop()
    installation.worker.env["DELAY_GIVE_UP"] = "0"
    installation.worker.stop()
    installation.worker.start().wait_ready()
    assert "DELAY_CLUSTERS" in installation.worker.log
    send(installation, there, due, 50)
    send(installation, here, due, 50, other=False)
    assert len(installation.wait_for(here, 50)) == 50

    held: dict[str, Any] = {}

    def told() -> bool:
        try:
            rows = json.loads(ask(installation, "/api/v1/destinations"))["destinations"]
        except urllib.error.HTTPError:  # it has not read the reports yet
            return False
        held.update({row["destination"]: row for row in rows if row["held_since_ms"]})
        return f"{there}@other" in held

    eventually(told, what="a log line about the held messages")
    assert held.keys() == {f"{there}@other"}
    assert "KafkaConnectionError" in held[f"{there}@other"]["held_because"]
    said = f"{there} on cluster other is not accepting messages"
    eventually(lambda: said in ask(installation, "/"), what="a word on the page")
    logged = f"destination {there} on cluster other: no metadata"
    eventually(lambda: logged in installation.worker.log, what="a word in the log")

    broker.start()
    records = wait_for(broker.bootstrap, there, 50)
    assert [record.value for record in records] == [b"%d" % number for number in range(50)]


def test_a_cluster_that_is_no_longer_configured_is_unknown(installation: Installation, there: str) -> None:
    """Messages wait for it while the worker is restarted without it."""
    ids, due = [installation.new_id() for _ in range(3)], now_ms() + 3_600_000
    for id_ in ids:
        installation.requests.schedule(id_, due, there, to_cluster="other")
    installation.requests.flush()
    installation.await_event("accepted", *ids)
    installation.worker.kill()
    del installation.worker.env["DELAY_CLUSTERS"]
    installation.worker.start().wait_ready()
    for id_ in ids:
        installation.requests.command("deliver-now", id_)
    installation.requests.flush()

    dead_letters = installation.letters_for(3, there)
    assert {dead_letter.header("delay-reason") for dead_letter in dead_letters} == {"unknown-cluster"}
    assert all("DELAY_CLUSTERS" in dead_letter.header("delay-error") for dead_letter in dead_letters)
