"""The clock notices when it cannot be trusted: a message that is sent cannot be taken back."""

import logging

import pytest

from app.base.clock import ALARM_MS, FAST_MS, JUMP_MS, Clock


class SimulatedClock(Clock):
    """A clock whose hands a test moves."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1_767_225_600_000, 5_000
        super().__init__()

    def wall_ms(self) -> int:  # type: ignore[override]
        return self.wall

    def monotonic_ms(self) -> int:  # type: ignore[override]
        return self.monotonic

    def pass_by(self, milliseconds: int, *, jump: int = 0) -> None:
        self.monotonic += milliseconds
        self.wall += milliseconds + jump


@pytest.fixture
def clock() -> SimulatedClock:
    made = SimulatedClock()
    made.compare(made.wall, made.wall, made.wall)
    return made


def test_no_message_is_delivered_before_the_brokers_clock_is_known() -> None:
    clock = SimulatedClock()
    clock.confirm(clock.now_ms(), clock.jumps, -1)
    assert not clock.may_fire()
    clock.confirm(clock.now_ms(), clock.jumps, clock.wall)

    assert clock.may_fire()


def test_a_clock_that_runs_is_trusted(clock: SimulatedClock) -> None:
    before = clock.now_ms()
    clock.pass_by(86_400_000)

    assert clock.now_ms() == before + 86_400_000
    assert clock.may_fire()
    assert clock.jumps == 0


def test_a_process_that_is_stopped_between_both_readings_has_seen_no_jump(
    clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = clock.wall_ms

    def stopped_once() -> int:
        monkeypatch.setattr(clock, "wall_ms", read)
        before = clock.wall
        clock.pass_by(10_000)
        return before

    monkeypatch.setattr(clock, "wall_ms", stopped_once)

    assert clock.now_ms() == clock.wall
    assert (clock.jumps, clock.brokers_ms()) == (0, clock.wall)


def test_a_jump_forward_makes_the_clock_suspect_until_the_brokers_confirm_it(
    clock: SimulatedClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.pass_by(10, jump=JUMP_MS)

    assert clock.now_ms() == clock.wall
    assert not clock.may_fire()
    assert caplog.messages == [
        "the clock jumped by +500 ms. Deliveries wait until it is compared with the brokers' clock again"
    ]
    clock.now_ms()
    assert clock.jumps == 1
    clock.compare(100, 105, 110)
    assert clock.may_fire()


def test_a_jump_back_is_counted_and_delivers_no_message_early(
    clock: SimulatedClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.pass_by(10, jump=-JUMP_MS)
    clock.now_ms()

    assert clock.may_fire()
    assert clock.jumps == 1
    assert caplog.messages == ["the clock jumped by -500 ms"]


def test_a_jump_back_does_not_excuse_a_jump_forward(clock: SimulatedClock) -> None:
    clock.pass_by(10, jump=JUMP_MS)
    clock.now_ms()
    clock.pass_by(10, jump=-JUMP_MS)
    clock.now_ms()

    assert not clock.may_fire()


def test_a_clock_that_is_set_a_little_is_followed(clock: SimulatedClock) -> None:
    clock.pass_by(10, jump=JUMP_MS - 1)

    assert clock.now_ms() == clock.wall
    assert clock.may_fire()
    assert clock.jumps == 0


@pytest.mark.parametrize(
    ("sent", "appended", "acked", "offset"),
    [
        (1_000, 1_000, 1_010, 0),
        (1_000, 1_005, 1_010, 0),
        (1_000, 1_010, 1_010, 0),
        (1_000, 900, 1_010, 100),  # fast: the broker's time is before ours was when we sent
        (1_000, 1_210, 1_010, -200),  # slow
    ],
)
def test_the_offset_to_the_brokers_is_what_sending_cannot_explain(
    clock: SimulatedClock, sent: int, appended: int, acked: int, offset: int
) -> None:
    clock.compare(sent, appended, acked)

    assert clock.offset_ms == offset


def test_a_clock_that_is_fast_by_more_than_a_second_stops_firing(clock: SimulatedClock) -> None:
    clock.compare(10_000, 10_000 - FAST_MS, 10_000)
    assert clock.may_fire()
    clock.compare(10_000, 10_000 - FAST_MS - 1, 10_000)
    assert not clock.may_fire()
    clock.compare(10_000, 20_000, 10_001)  # slow: late, but never early
    assert clock.may_fire()


def test_the_brokers_confirming_a_jump_say_how_far_off_it_is(clock: SimulatedClock) -> None:
    clock.pass_by(0, jump=5_000)
    now = clock.now_ms()
    clock.compare(now, now - 5_000, now)

    assert not clock.may_fire()
    assert clock.offset_ms == 5_000


def test_a_record_confirms_the_clock_by_when_it_was_sent_and_when_it_is_acknowledged(clock: SimulatedClock) -> None:
    sent = clock.now_ms()
    clock.pass_by(10)
    clock.confirm(sent, clock.jumps, sent + 5)
    assert clock.offset_ms == 0
    clock.confirm(sent, clock.jumps, sent - 5)
    assert clock.offset_ms == 5


def test_a_record_that_was_in_flight_during_a_jump_does_not_confirm_the_clock(clock: SimulatedClock) -> None:
    sent, jumps = clock.now_ms(), clock.jumps
    clock.pass_by(10, jump=3_600_000)
    clock.confirm(sent, jumps, sent + 5)

    assert not clock.may_fire()
    assert clock.jumps == 1


def test_a_broker_without_a_timestamp_does_not_confirm_the_clock(clock: SimulatedClock) -> None:
    clock.pass_by(10, jump=JUMP_MS)
    clock.now_ms()
    clock.confirm(clock.now_ms(), clock.jumps, -1)

    assert not clock.may_fire()


@pytest.mark.parametrize("jump", [-3_600_000, 3_600_000])
def test_the_brokers_time_goes_on_while_the_clock_jumps(clock: SimulatedClock, jump: int) -> None:
    brokers = clock.now_ms() - clock.offset_ms
    clock.pass_by(10, jump=jump)

    assert clock.now_ms() - clock.offset_ms == brokers + 10


def test_an_alarm_is_given_once_until_the_clock_is_right_again(
    clock: SimulatedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    for appended in (1_000 - ALARM_MS + 1, 1_000 - ALARM_MS, 1_000 - ALARM_MS, 1_000, 1_000 + ALARM_MS):
        clock.compare(1_000, appended, 1_000)

    assert caplog.messages == [
        "this machine's clock is +100 ms off the brokers'. Check that NTP runs on both.",
        "this machine's clock is -100 ms off the brokers'. Check that NTP runs on both.",
    ]


def test_the_real_clock_reads_milliseconds_of_the_epoch() -> None:
    clock = Clock()

    assert 1_700_000_000_000 < clock.now_ms() < 5_000_000_000_000
    assert clock.monotonic_ms() >= 0


def test_a_clock_that_drifts_between_two_looks_at_the_brokers_stops_firing_when_it_is_too_fast(
    clock: SimulatedClock,
) -> None:
    clock.pass_by(10)
    clock.compare(900, 0, 905)
    assert clock.may_fire()
    for _ in range(10):
        clock.pass_by(20, jump=10)
        clock.now_ms()
    assert clock.may_fire()
    clock.pass_by(20, jump=1)
    clock.now_ms()

    assert (clock.jumps, clock.may_fire()) == (0, False)


def test_a_drift_that_has_been_measured_is_not_counted_again(clock: SimulatedClock) -> None:
    for second in range(30):
        clock.pass_by(1_000, jump=30)
        clock.now_ms()
        clock.compare(30 * (second + 1), 0, 30 * (second + 1))
        assert clock.may_fire()

    assert (clock.jumps, clock.offset_ms) == (0, 900)
    clock.pass_by(1_000, jump=90)
    clock.now_ms()
    assert clock.may_fire()
    clock.pass_by(1_000, jump=11)
    clock.now_ms()
    assert not clock.may_fire()
