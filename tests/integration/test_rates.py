"""Rate-limited destinations get at most their rates, from all workers together, and delay no other destination.

RATES_BACKLOG (6000) is how many messages are due at once, RATES_SECONDS (14) the time of the measurement, RATES_CAPS
(60,25,120) the rate limits, and RATES_LATER_MS (250) how much later a neighbour's p99 may be than next to as many
messages without rate limits: next to other tests it varies by 100 ms. `make test NAME=rates` runs the full form.
"""

import logging
import os
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.harness.kafka import create_topic, now_ms, read
from tests.harness.pace import standstill_s
from tests.harness.waiting import crowd, eventually
from tests.harness.worker import Worker, await_sharing
from tests.integration.conftest import Run
from tests.integration.installation import Installation, late_ms

log = logging.getLogger(__name__)

PARTITIONS = 8
BACKLOG = int(os.environ.get("RATES_BACKLOG", "6000"))
SECONDS = int(os.environ.get("RATES_SECONDS", "14"))
#: Maximum seconds until no message is overdue: a busy worker is sometimes a second late.
_SETTLE_S = 3.0
CAPS = tuple(int(cap) for cap in os.environ.get("RATES_CAPS", "60,25,120").split(","))
#: How long the backlog takes to be accepted.
LEAD_MS = 3_000 + BACKLOG // 3
#: Messages a second for the destination without a rate limit.
BESIDE = 100
WINDOW_MS = 10_000
#: Maximum deviation of a window from the rate, and how much later a neighbour's p99 may be next to the backlog.
OFF, LATER_MS = 0.05, int(os.environ.get("RATES_LATER_MS", "250"))


@pytest.fixture(scope="module", params=[pytest.param("at_least_once", marks=pytest.mark.core), "exactly_once"])
def installation(run: Run, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """An installation with rate limits for some destinations."""

    def env(app_id: str) -> dict[str, str]:
        rates = ",".join(f"{app_id}-capped-{number}={cap}/s" for number, cap in enumerate(CAPS))
        return {"DELAY_RATES": rates, "DELAY_GUARANTEE": request.param}

    with run(f"rates-{request.param.replace('_', '-')}", env=env, partitions=PARTITIONS, balanced=False) as made:
        yield made


def backlog(installation: Installation, topics: list[str], due: int) -> None:
    """Send messages that are due at once, spread over partitions and destinations by their rate limits."""
    options = {"linger.ms": 20, "queue.buffering.max.messages": 200_000, "compression.type": "lz4", "acks": "all"}
    producer = Producer({"bootstrap.servers": installation.bootstrap, **options})
    places = [topic for topic, cap in zip(topics, CAPS, strict=True) for _ in range(cap)]
    for number in range(BACKLOG):
        to = places[number * 7919 % len(places)]
        headers = {"delay-to": to, "delay-at": str(due)}
        producer.produce(
            installation.requests.topic,
            b"%d" % number,
            b"k",
            partition=number % PARTITIONS,
            headers=list(headers.items()),
        )
        producer.poll(0)
    assert not producer.flush(120)


def evenly(installation: Installation, to: str, rate: int, begin: int, seconds: int) -> int:
    """Send `rate` messages a second to a destination without a limit, over all partitions; return how many."""
    count = rate * seconds
    for number in range(count):
        due = begin + number * 1_000 // rate
        headers = {"delay-to": to, "delay-at": str(due)}
        installation.requests.send(headers, b"%d" % number, b"", partition=number % PARTITIONS)
    installation.requests.flush()
    return count


def p99_ms(installation: Installation, to: str, count: int) -> int:
    """Return how late 99 of 100 were at most."""
    late = sorted(map(late_ms, installation.wait_for(to, count, LEAD_MS / 1_000 + SECONDS + 60)))
    assert len(late) == count
    return late[len(late) * 99 // 100]


def windows(times: list[int], begin: int, end: int) -> list[int]:
    """Return how many came in each window of ten seconds from `begin` to `end`, a tenth of a second apart."""
    starts = range(begin, end - WINDOW_MS + 1, 100)
    return [bisect_left(times, start + WINDOW_MS) - bisect_left(times, start) for start in starts]


def fewest(times: list[int], rate: int, begin: int, end: int) -> float:
    """Return the fewest deliveries in a window; while the machine stood still, `rate` a second count as delivered."""
    starts = range(begin, end - WINDOW_MS + 1, 100)
    counts = zip(starts, windows(times, begin, end), strict=True)
    return min(count + rate * standstill_s(start, start + WINDOW_MS) for start, count in counts)


def test_caps_are_reached_and_kept_and_a_neighbour_does_not_notice(installation: Installation, tmp_path: Path) -> None:
    capped = [f"{installation.app_id}-capped-{number}" for number in range(len(CAPS))]
    for topic in capped:
        create_topic(installation.bootstrap, topic, 2)
    free, beside, env = installation.topic(), installation.topic(), installation.worker.env
    with Worker(
        installation.bootstrap, installation.app_id, tmp_path / "second", partitions=PARTITIONS, env=env
    ) as second:
        second.start().wait_ready()
        await_sharing(installation.worker, second)
        soon = now_ms() + 3_000
        evenly(installation, installation.topic(), sum(CAPS), soon, 10)  # as many as all rate limits allow together
        beside_others = p99_ms(installation, free, evenly(installation, free, BESIDE, soon, 10))
        begin = now_ms() + LEAD_MS
        backlog(installation, capped, begin)
        count = evenly(installation, beside, BESIDE, begin, SECONDS)
        with_backlog = p99_ms(installation, beside, count)
        eventually(lambda: now_ms() > begin + SECONDS * 1_000, SECONDS + 30, "the end")
        reports, on_time = installation.progress, [0] * PARTITIONS
        settled_s = eventually(lambda: [one["overdue"] for one in reports().values()] == on_time, what="on time")
        second.kill()  # one worker is left
        lost = now_ms()
        second.start().wait_ready()
        eventually(lambda: now_ms() > lost + 12_000, what="a while")
        ended = now_ms()

    found = {topic: sorted(record.timestamp_ms for record in read(installation.bootstrap, topic)) for topic in capped}
    steady = {topic: windows(times, begin + 1_000, begin + SECONDS * 1_000) for topic, times in found.items()}
    always = {topic: windows(times, begin, ended) for topic, times in found.items()}
    log.info("p99 with the same load and no limits %d ms, with the backlog %d ms", beside_others, with_backlog)
    for topic, cap in zip(capped, CAPS, strict=True):
        counts = min(steady[topic]), max(steady[topic]), max(always[topic])
        log.info("%s, %d a second: %d to %d in ten seconds, %d at most ever", topic, cap, *counts)
    for topic, cap in zip(capped, CAPS, strict=True):
        assert max(always[topic]) <= cap * 10 * (1 + OFF) + 1
        least = fewest(found[topic], cap, begin + 1_000, begin + SECONDS * 1_000)
        assert least >= cap * 10 * (1 - OFF * crowd()) - 1  # lost time is not made up for
    assert with_backlog <= beside_others + LATER_MS * crowd()
    assert settled_s < _SETTLE_S * crowd()


def test_after_an_outage_messages_are_delivered_at_the_catch_up_rate(run: Run) -> None:
    rate, seconds = 150, 15
    setting = {"DELAY_CATCH_UP_RATE": f"{rate}/s"}
    with run("catch-up-rate", env=lambda _: setting, partitions=PARTITIONS) as installation:
        to, beside = installation.topic(), installation.topic()
        installation.worker.stop()
        missed = now_ms() - 20_000
        evenly(installation, to, rate * seconds, missed, 1)
        installation.worker.start().wait_ready()
        began = now_ms()
        count = evenly(installation, beside, BESIDE, began + 1_000, seconds)
        late = p99_ms(installation, beside, count)
        found = sorted(record.timestamp_ms for record in installation.wait_for(to, rate * seconds, 60))

    counts = windows(found, found[0], found[-1])
    log.info("%d to %d in ten seconds, wanted %d; p99 of others %d ms", min(counts), max(counts), 10 * rate, late)
    assert max(counts) <= rate * 10 * (1 + OFF) + 1
    least = fewest(found, rate, found[0], found[-1])
    assert least >= rate * 10 * (1 - OFF * crowd()) - 1  # lost time is not made up for
    assert late <= LATER_MS * crowd()
