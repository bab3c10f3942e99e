"""What destinations may get: never more than their caps, whatever workers do."""

import math
import random
from pathlib import Path
from typing import Any

import pytest

from app.engine.throttle.control import Control
from app.engine.throttle.throttle import BACKLOG_MS, Throttle
from app.settings.settings import Settings
from punctual.contract.destination import Destination
from punctual.contract.rate import Rate
from tests.app.base.test_clock import SimulatedClock

EMAILS: Destination = (None, "emails")
PARTITIONS = 16


def settings(**env: str) -> Settings:
    return Settings.from_env({"DELAY_PARTITIONS": str(PARTITIONS), **env})


def made(clock: SimulatedClock, owned: Any = range(PARTITIONS), **env: str) -> Throttle:
    throttle = Throttle(settings(**env).kafka, settings(**env).topics, settings(**env).destinations, clock)
    throttle.own(frozenset(owned))
    return throttle


def take_all(throttle: Throttle, late_ms: int = 0) -> int:
    """Send all that there is room for, and have it acknowledged at once."""
    taken = 0
    while throttle.room(EMAILS, late_ms, 0) >= 1:
        throttle.spend(EMAILS, late_ms)
        taken += 1
    return taken


def most_in_ten_seconds(sent_ms: list[int]) -> int:
    sent_ms = sorted(sent_ms)
    return max(sum(begin <= at < begin + 10_000 for at in sent_ms) for begin in sent_ms[:: max(1, len(sent_ms) // 300)])


def test_without_a_control_no_message_is_held_back() -> None:
    throttle = made(SimulatedClock())

    assert not throttle.active
    assert not throttle.throttles(EMAILS, 1 << 40)
    assert throttle.room(EMAILS, 0, 1_000) == math.inf


@pytest.mark.core
@pytest.mark.parametrize("rate", ["500/s", "20/s", "90/m", "1/s"])
def test_workers_together_reach_a_cap_and_do_not_exceed_it_though_partitions_move_and_workers_start(rate: str) -> None:
    rnd, clock, sent = random.Random(rate), SimulatedClock(), list[int]()  # noqa: S311
    owners = [number % 2 for number in range(PARTITIONS)]

    def workers() -> list[Throttle]:
        return [
            made(clock, [p for p, o in enumerate(owners) if o == one], DELAY_RATES=f"emails={rate}") for one in (0, 1)
        ]

    both = workers()
    for _ in range(3_000):
        clock.pass_by(20)
        if rnd.random() < 0.01:  # a rebalance
            owners = [rnd.randrange(2) for _ in owners]
            for number, throttle in enumerate(both):
                throttle.own(frozenset(p for p, owner in enumerate(owners) if owner == number))
        if rnd.random() < 0.005:  # a restart
            both[rnd.randrange(2)] = workers()[0]
            both = workers() if rnd.random() < 0.5 else both
            for number, throttle in enumerate(both):
                throttle.own(frozenset(p for p, owner in enumerate(owners) if owner == number))
        for throttle in both:
            sent += [clock.wall] * take_all(throttle)

    per_s = Settings.from_env({"DELAY_RATES": f"emails={rate}"}).destinations.rates["emails"].per_s
    assert most_in_ten_seconds(sent) <= 10 * per_s * 1.05 + 1
    assert len(sent) >= 60 * per_s * 0.9


def test_unused_capacity_is_lost_except_for_a_burst() -> None:
    clock = SimulatedClock()
    plain, bursty = (made(clock, DELAY_RATES=f"emails=20/s{burst}") for burst in ("", " burst 100"))
    clock.pass_by(60_000)

    assert take_all(plain) == 4
    assert take_all(bursty) == 100
    clock.pass_by(1_000)
    assert take_all(bursty) == 20


def test_a_restart_grants_no_fresh_burst() -> None:
    clock = SimulatedClock()
    throttle = made(clock, DELAY_RATES="emails=20/s burst 100")
    clock.pass_by(60_000)
    assert take_all(throttle) == 100

    assert take_all(made(clock, DELAY_RATES="emails=20/s burst 100")) == 0


@pytest.mark.parametrize("stalls_s", [0.3, 1.0, 4.0, 15.0])
def test_messages_that_a_broker_has_delayed_do_not_exceed_the_rate_later(stalls_s: float) -> None:
    clock, arrived, on_their_way = SimulatedClock(), list[int](), 0
    throttle = made(clock, DELAY_RATES="emails=100/s")
    for turn in range(3_000):
        clock.pass_by(20)
        room = int(throttle.room(EMAILS, 0, on_their_way))
        for _ in range(max(0, room)):
            throttle.spend(EMAILS, 0)
            on_their_way += 1
        if turn * 0.02 % (stalls_s + 3) > stalls_s:
            arrived += [clock.wall] * on_their_way
            on_their_way = 0

    assert most_in_ten_seconds(arrived) <= 1_050


@pytest.mark.parametrize("takes_ms", [40, 300, 600])
def test_a_cap_is_reached_though_answers_take_a_while(takes_ms: int) -> None:
    clock, answers, arrived = SimulatedClock(), list[int](), 0
    throttle = made(clock, DELAY_RATES="emails=60/s")
    for _ in range(3_000):
        clock.pass_by(20)
        arrived += sum(at <= clock.wall for at in answers)
        answers = [at for at in answers if at > clock.wall]
        for _ in range(max(0, int(throttle.room(EMAILS, 0, len(answers))))):
            throttle.spend(EMAILS, 0)
            answers.append(clock.wall + takes_ms)

    assert arrived >= 60 * 60 * 0.95


def test_a_clock_that_is_set_makes_no_slots_and_takes_none() -> None:
    clock = SimulatedClock()
    throttle = made(clock, DELAY_RATES="emails=20/s burst 100")
    clock.pass_by(0, jump=3_600_000)
    assert take_all(throttle) == 0
    clock.pass_by(1_000, jump=-7_200_000)
    assert take_all(throttle) == 20


def test_the_time_of_the_next_permission_is_known() -> None:
    clock = SimulatedClock()
    throttle = made(clock, [3], DELAY_RATES="emails=1/s")
    wait_ms = math.ceil(throttle.until_s(EMAILS, 0) * 1000)
    assert 0 < wait_ms <= PARTITIONS * 1000

    clock.pass_by(wait_ms - 1)
    assert take_all(throttle) == 0
    clock.pass_by(1)
    assert take_all(throttle) == 1


def test_a_record_wins_over_the_settings() -> None:
    clock, controls = SimulatedClock(), dict[Destination, Control]()
    throttle = Throttle(
        settings(DELAY_RATES="emails=10/s,sms=5/s").kafka,
        settings(DELAY_RATES="emails=10/s,sms=5/s").topics,
        settings(DELAY_RATES="emails=10/s,sms=5/s").destinations,
        clock,
        controls,
    )
    controls[EMAILS] = Control(rate=Rate(20.0))
    controls[None, "sms"] = Control(unlimited=True)
    controls[None, "letters"] = Control(rate=Rate(1.0))
    throttle.update()

    assert throttle.rates.get(EMAILS) == Rate(20.0)
    assert throttle.rates.get((None, "sms")) is None
    assert throttle.rates.get((None, "letters")) == Rate(1.0)
    controls.clear()
    throttle.update()
    assert throttle.rates.get(EMAILS) == Rate(10.0)
    assert throttle.rates.get((None, "letters")) is None


def test_a_pause_ends_by_itself_at_the_brokers_time() -> None:
    clock, controls = SimulatedClock(), dict[Destination, Control]()
    throttle = Throttle(settings().kafka, settings().topics, settings().destinations, clock, controls)
    clock.offset_ms = 50  # ahead of the brokers
    controls[EMAILS] = Control(paused=True, until_ms=clock.wall + 1_000)
    throttle.update()

    assert throttle.active
    assert throttle.throttles(EMAILS, 0)
    assert throttle.pauses == [EMAILS]
    clock.pass_by(1_049)
    assert throttle.room(EMAILS, 0, 0) == 0
    assert throttle.until_s(EMAILS, 0) == pytest.approx(0.001)
    clock.pass_by(1)
    assert throttle.room(EMAILS, 0, 0) == math.inf
    assert not throttle.throttles(EMAILS, 0)
    assert throttle.pauses == []


def test_only_backlog_is_held_back_to_catch_up_and_only_where_there_is_no_cap() -> None:
    clock = SimulatedClock()
    throttle = made(clock, DELAY_CATCH_UP_RATE="100/s", DELAY_RATES="sms=5/s")

    assert throttle.throttles(EMAILS, BACKLOG_MS + 1)
    assert not throttle.throttles(EMAILS, BACKLOG_MS)
    assert take_all(throttle, BACKLOG_MS + 1) == 0
    clock.pass_by(100)
    assert take_all(throttle, BACKLOG_MS + 1) == 10
    assert throttle.room(EMAILS, BACKLOG_MS, 0) == math.inf
    assert throttle.rates.get((None, "sms")) == Rate(5.0)


def together(tmp_path: Path, clock: SimulatedClock, rate: str, owned: Any = range(PARTITIONS), **env: str) -> Throttle:
    """A throttle of an installation whose cluster `other` has a cap."""
    file = tmp_path / "clusters.toml"
    file.write_text(
        f'[clusters.other]\nbootstrap_servers = "h:1"\nrate = "{rate}"\n[clusters.free]\nbootstrap_servers = "h:2"',
        "utf-8",
    )
    return made(clock, owned, DELAY_CLUSTERS=str(file), **env)


def test_all_topics_of_a_cluster_share_its_cap(tmp_path: Path) -> None:
    clock = SimulatedClock()
    throttle = together(tmp_path, clock, "100/s", DELAY_RATES="other/slow=1/s")
    slow, a, b = ("other", "slow"), ("other", "a"), ("other", "b")
    taken = dict.fromkeys((slow, a, b), 0)
    for _ in range(1_000):
        clock.pass_by(10)
        for to in taken:
            if throttle.room(to, 0, 0, 0) >= 1:
                throttle.spend(to, 0)
                taken[to] += 1

    assert 950 <= sum(taken.values()) <= 1_030
    assert 8 <= taken[slow] <= 11
    assert throttle.shares(a)
    assert throttle.limits(a, 0)
    for free in (EMAILS, ("free", "a")):
        assert not throttle.throttles(free, 0)
        assert throttle.room(free, 0, 1_000) == math.inf
        assert throttle.until_s(free, 0) == 0


def test_messages_in_flight_to_a_cluster_count_for_its_limit_on_every_topic(tmp_path: Path) -> None:
    def after_a_while(answered: int) -> float:
        clock = SimulatedClock()
        throttle = together(tmp_path, clock, "10/s burst 50")
        for sent in range(0, 150, 50):
            clock.pass_by(11_000)
            throttle.room(("other", "a"), 0, 0, sent - sent * answered)
            for _ in range(50):
                throttle.spend(("other", "b"), 0)
        clock.pass_by(11_000)
        return throttle.room(("other", "a"), 0, 0, 150 - 150 * answered)

    assert after_a_while(answered=1) == 50
    assert after_a_while(answered=0) < 5


def test_a_cluster_s_cap_is_shared_by_workers(tmp_path: Path) -> None:
    clock = SimulatedClock()
    both = [together(tmp_path, clock, "100/s", range(first, PARTITIONS, 2)) for first in (0, 1)]
    taken = 0
    for _ in range(1_000):
        clock.pass_by(10)
        for throttle in both:
            while throttle.room(("other", "a"), 0, 0, 0) >= 1:
                throttle.spend(("other", "a"), 0)
                taken += 1
    assert 950 <= taken <= 1_030
