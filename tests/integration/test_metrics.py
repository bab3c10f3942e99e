"""A worker's metrics agree with its events, its dead letters and the console."""

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.kafka import now_ms
from tests.harness.waiting import LIMIT_S, ask_until, eventually
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation

HOUR_MS = 3_600_000
Samples = dict[tuple[str, str], float]


@pytest.fixture(scope="module", params=[pytest.param("at_least_once", marks=pytest.mark.core), "exactly_once"])
def installation(run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    guarantee = {"DELAY_GUARANTEE": request.param}
    with run(f"metrics-{request.param.replace('_', '-')}", env=lambda _: guarantee) as made:
        yield made


def ask(installation: Installation, path: str) -> bytes:
    with urllib.request.urlopen(f"{installation.worker.url}{path}", timeout=LIMIT_S) as answer:  # noqa: S310 - our own port
        body: bytes = answer.read()
    return body


def reported(installation: Installation) -> tuple[int, int] | None:
    """Return the pending and delivered counts of the console, None while it still reads the workers' reports."""
    try:
        found = json.loads(ask(installation, "/api/v1/overview"))
    except urllib.error.HTTPError:
        return None
    return found["pending"], found["lateness"]["count"]


def scraped(installation: Installation) -> Samples:
    """Return the values of metrics, by name and the value of their first label."""
    families = text_string_to_metric_families(ask(installation, "/metrics").decode())
    found: Samples = {}
    for sample in (sample for family in families for sample in family.samples):
        place = sample.name, next(iter(sample.labels.values()), "")
        found[place] = found.get(place, 0) + sample.value
    return found


def labelled(samples: Samples, name: str) -> dict[str, float]:
    """Return the values of one metric that are not 0, by label."""
    return {label: value for (metric, label), value in samples.items() if metric == name and value}


def due(samples: Samples) -> dict[str, float]:
    """Return how many are due within how many seconds."""
    return {le: value for (name, le), value in samples.items() if name == "delay_pending_by_due"}


def test_metrics_equal_the_written_records(installation: Installation) -> None:
    to, send = installation.topic(), installation.requests.send
    soon = str(now_ms() + 300)
    for number in range(20):
        send({"delay-to": to, "delay-at": soon, "delay-id": f"soon-{number}"}, b"k", b"v")
    for number, hours in enumerate((2, 2, 30, 24 * 20, 24 * 20)):
        at = str(now_ms() + hours * HOUR_MS)
        send({"delay-to": to, "delay-at": at, "delay-id": f"later-{number}"}, b"k", b"v")
    for _ in range(3):
        send({"delay-to": to, "delay-after": "soon"}, b"k", b"v")
    send({"delay-after": "1"}, b"k", b"v")
    installation.requests.flush()
    installation.await_event("accepted", "later-1", "later-2")
    send({"delay-op": "cancel", "delay-id": "later-1"})
    send({"delay-op": "reschedule", "delay-id": "later-2", "delay-after": "PT31H"})
    installation.requests.flush()
    installation.await_event("cancelled", "later-1")
    installation.await_event("rescheduled", "later-2")
    installation.await_event("delivered", *(f"soon-{number}" for number in range(20)))

    eventually(lambda: reported(installation) == (4, 20), what="its report")
    events = {"accepted": 25, "delivered": 20, "cancelled": 1, "rescheduled": 1, "refused": 4}
    letters = {"malformed": 3, "missing-destination": 1}
    ask_until(
        lambda: Counter(event["event"] for event in installation.events()), lambda told: told == events, "all events"
    )
    ask_until(
        lambda: Counter(one.header("delay-reason") for one in installation.letters(4)),
        lambda told: told == letters,
        "all dead letters",
    )
    samples = ask_until(
        lambda: scraped(installation),
        lambda found: (
            labelled(found, "delay_messages_total") == events
            and labelled(found, "delay_dead_letters_total") == letters
            and labelled(found, "delay_pending_messages") == {to: 4}
        ),
        "the metrics of all messages",
    )
    assert samples["delay_lateness_seconds_count", ""] == samples["delay_lateness_seconds_bucket", "+Inf"] == 20
    assert samples["delay_commit_seconds_count", ""] > 0
    by_hour = {"3600": 0.0, "86400": 1.0, "604800": 2.0, "2592000": 4.0, "+Inf": 4.0}
    assert {le: number for le, number in due(samples).items() if le in by_hour} == by_hour
    eventually(
        lambda: labelled(scraped(installation), "delay_ingest_lag_records") == {}, what="that all requests are read"
    )
    assert samples["delay_partitions", ""] == PARTITIONS
    send({"delay-to": to, "delay-at": str(now_ms() + 200_000), "delay-id": "in-minutes"}, b"k", b"v")
    installation.requests.flush()
    minutes = {"60": 0.0, "300": 1.0, "900": 1.0}
    eventually(lambda: due(scraped(installation)) == minutes | {le: n + 1 for le, n in by_hour.items()}, what="minutes")
