"""Global limits are shared among teams, on a real worker and across its restart."""

import time
from collections.abc import Iterator

import pytest

from tests.harness.kafka import create_topic, read
from tests.harness.waiting import eventually
from tests.integration.conftest import Run
from tests.integration.installation import ON_TIME_MS, Installation, late_ms, new_app_id

MOST = 20
A_THOUSAND_DAYS = "P1000D"


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    """A worker with an input for each of two teams, and room for a few destinations."""

    def env(app_id: str) -> dict[str, str]:
        return {
            "DELAY_INPUTS": f"{app_id}-a=native,{app_id}-b=native",
            "DELAY_NAMESPACES": f"{app_id}-a=team-a,{app_id}-b=team-b",
            "DELAY_HTTP_DESTINATIONS": "*",
            "DELAY_MAX_DESTINATIONS": str(MOST),
            "DELAY_DESTINATIONS": "*",
        }

    with run("shares", env=env) as made:
        yield made


def ask_for(installation: Installation, team: str, *hosts: str) -> None:
    """Schedule a message to each of the `hosts`."""
    for host in hosts:
        headers = {"delay-to": f"https://{host}.example/", "delay-after": A_THOUSAND_DAYS, "delay-id": host}
        installation.requests.send(headers, host.encode(), b"", topic=f"{installation.app_id}-{team}")
    installation.requests.flush()


def test_one_team_leaves_destinations_for_others(installation: Installation) -> None:
    ask_for(installation, "a", *(f"a{number}" for number in range(MOST)))
    hosts = {b"a%d" % number for number in range(MOST)}
    refused = {one.key: one for one in installation.letters(MOST // 2, lambda one: one.key in hosts)}
    assert {one.header("delay-reason") for one in refused.values()} == {"too-many-destinations"}
    assert "the namespace team-a has pending messages for 10 destinations" in (
        next(iter(refused.values())).header("delay-error") or ""
    )

    ask_for(installation, "b", "b1", "b2")
    installation.await_event("accepted", "team-b/b1", "team-b/b2")
    installation.worker.stop()
    installation.worker.start().wait_ready()
    ask_for(installation, "a", "a-more")
    ask_for(installation, "b", "b3")
    installation.await_event("accepted", "team-b/b3")
    installation.dead_letters(b"a-more")


def test_the_first_requests_for_a_new_topic_wait_for_the_brokers_and_invented_names_delay_no_other(
    installation: Installation,
) -> None:
    known, new = installation.topic(), new_app_id("new")
    for number in range(400):
        installation.requests.send({"delay-to": new, "delay-after": "PT6S"}, b"%d" % number, b"")
    for number in range(1_000):
        installation.requests.send({"delay-to": f"{new}-{number}", "delay-after": "PT1H"}, b"made up", b"")
    installation.requests.send({"delay-to": known, "delay-after": "100"}, b"known", b"")
    installation.requests.flush()
    time.sleep(1)  # the brokers learn about the topic now
    create_topic(installation.bootstrap, new, 1)

    assert late_ms(installation.wait_for(known, 1)[0]) < ON_TIME_MS
    assert {record.key for record in installation.wait_for(new, 400)} == {b"%d" % number for number in range(400)}

    def rejected() -> list[str | None]:
        letters = read(installation.bootstrap, f"{installation.app_id}-dead-letters")
        return [letter.header("delay-reason") for letter in letters if letter.key == b"made up"]

    eventually(lambda: len(rejected()) == 1_000, what="the letters of all made-up names")
    assert set(rejected()) == {"unknown-topic"}
