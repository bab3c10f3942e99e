"""Partitions whose inputs do not answer are distinguished from those whose inputs are idle."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from app.engine.due.input_lag import FORGOTTEN_S, LONGEST_S
from app.engine.due.input_liveness import BLIND_S, InputLiveness
from app.engine.partition.partition import Partition, State
from punctual.contract.namespaces import Namespaces
from tests.app.stage import Stage

TOPICS = {"delay-requests": 3.0, "delay-forwards": 1.0}
REQUESTS, FORWARDS = TOPICS
ORDERS, BILLING = "orders-delays", "billing-delays"
NAMESPACES = Namespaces({ORDERS: "orders", BILLING: "billing"})
WITH_TEAMS = {**TOPICS, ORDERS: 3.0, BILLING: 3.0}


class Ears:
    """The state of the inputs, which the test sets."""

    def __init__(self) -> None:
        self.answered: dict[str, float | None] = dict.fromkeys(WITH_TEAMS, 0.0)
        self.under_way: set[str] = set()
        self.end = self.read = 0
        #: Where topics end that end elsewhere than the others.
        self.ends: dict[str, int] = {}

    def heard(self, topic: str, partition: int) -> float | None:
        assert partition == 0
        return self.answered[topic]

    def written(self, topic: str, partition: int) -> int:
        assert topic in WITH_TEAMS
        assert partition == 0
        return self.ends.get(topic, self.end)

    def position(self, topic: str, partition: int) -> int:
        assert topic in WITH_TEAMS
        assert partition == 0
        return self.read

    def ahead(self, topic: str, partition: int) -> bool:
        assert partition == 0
        return topic in self.under_way


class Looking:
    """A live partition, looked at every quarter of a second."""

    def __init__(self, partition: Partition, topics: Mapping[str, float] = TOPICS) -> None:
        self.partition, self.ears = partition, Ears()
        self.lost: list[float] = []
        self.now_s = 100.0
        partition._lost_inputs = lambda _: self.lost.append(self.now_s)
        self._sight = InputLiveness(self.ears, topics, NAMESPACES)
        self._look()
        self.lost.clear()

    def look(self, seconds: float, *answered: str, steps: bool = False) -> bool:
        """Let time pass, in which brokers answer for these topics; return whether the partition was lost."""
        until = self.now_s + seconds
        self.lost.clear()
        while self.now_s < until:
            self.now_s += 0.25
            for topic in answered:
                self.ears.answered[topic] = self.now_s
            self.partition.writer.steps_read += steps
            self._look()
        return bool(self.lost)

    def look_at_once(self) -> None:
        """Look again, sooner than partitions are checked regularly."""
        self.now_s += 1e-9
        self._look()

    @property
    def behind_s(self) -> float:
        return self._sight.behind_s(self.partition)

    @property
    def apart_s(self) -> Mapping[str, float]:
        return self._sight.apart_s(self.partition)

    def stop_the_process(self, seconds: float) -> bool:
        """Let time pass without any event here."""
        self.lost.clear()
        self.now_s += seconds
        self.ears.answered = dict.fromkeys(TOPICS, self.now_s)
        self._look()
        return bool(self.lost)

    def _look(self) -> None:
        self._sight.look([self.partition], self.now_s)


@pytest.fixture
async def looking(tmp_path: Path) -> AsyncIterator[Looking]:
    async with Stage(tmp_path) as stage:
        yield Looking(stage.partition)


def test_a_partition_that_comes_back_is_not_mistaken_for_the_earlier_one(looking: Looking) -> None:
    looking.look(1.0)
    again = Partition(0, looking.partition._services, looking.partition._firing)
    again.life, again._lost_inputs = looking.partition.life + 1, looking.partition._lost_inputs
    again._store = looking.partition.store
    again.go_live()
    looking.look(1.0)
    looking.partition = again
    assert not looking.look(2.5), "the silence is longer, but it was another partition's"
    assert looking.look(1.0)


def test_a_partition_whose_inputs_are_answered_for_is_seen(looking: Looking) -> None:
    assert not looking.look(60, *TOPICS)


def test_a_partition_is_lost_when_one_of_its_inputs_is_not_answered_for(looking: Looking) -> None:
    looking.look(1, *TOPICS)
    assert not looking.look(BLIND_S, REQUESTS)
    assert looking.look(1, REQUESTS)


def test_a_short_silence_is_none(looking: Looking) -> None:
    for _ in range(5):
        assert not looking.look(BLIND_S - 0.5)
        assert not looking.look(0.25, *TOPICS)


def test_a_partition_that_reads_new_records_is_live(looking: Looking) -> None:
    looking.ears.under_way = {REQUESTS}
    assert not looking.look(60, FORWARDS, steps=True)


def test_a_partition_that_cannot_read_new_records_is_lost(looking: Looking) -> None:
    looking.ears.under_way = {REQUESTS}
    assert looking.look(BLIND_S + 1, *TOPICS)


def test_steps_of_one_input_do_not_hide_the_silence_of_another(looking: Looking) -> None:
    looking.ears.under_way = {REQUESTS}
    assert looking.look(BLIND_S + 1, steps=True)


def test_inputs_that_are_not_to_be_read_are_no_loss(looking: Looking) -> None:
    looking.ears.answered = dict.fromkeys(TOPICS, None)
    assert not looking.look(60)


def test_a_partition_is_blind_after_its_process_was_stopped(looking: Looking) -> None:
    looking.look(1, *TOPICS)
    assert looking.stop_the_process(BLIND_S + 1)


def test_a_partition_that_is_not_live_is_left_alone(looking: Looking) -> None:
    looking.partition._state = State.CATCHING_UP
    assert not looking.look(60)


def test_a_lost_partition_that_is_live_again_is_given_time(looking: Looking) -> None:
    looking.look(BLIND_S + 0.5)
    assert not looking.look(BLIND_S)


# behind --------------------------------------------------------------------------------------------------------------
def test_a_partition_that_reads_all_new_records_is_not_behind(looking: Looking) -> None:
    for _ in range(20):
        looking.ears.end += 10
        looking.look(0.25, *TOPICS)
        looking.ears.read = looking.ears.end
        assert not looking.behind_s


def test_messages_wait_for_records_known_to_be_unread_beyond_the_margin(looking: Looking) -> None:
    looking.look(1, *TOPICS)
    looking.ears.end = 1  # in the forwards too, which have the smaller margin
    looking.look(1, *TOPICS)
    assert not looking.behind_s
    looking.look(1.5, *TOPICS)
    assert looking.behind_s == pytest.approx(1.5)

    looking.ears.read = 1
    looking.look(0.25, *TOPICS)
    assert not looking.behind_s


def test_records_after_the_oldest_unread_one_count_from_their_own_arrival(looking: Looking) -> None:
    for read in range(16):  # a second and a half behind, all along
        looking.ears.end, looking.ears.read = read + 6, read
        looking.look(0.25, *TOPICS)
    assert looking.behind_s == pytest.approx(0.5)


def test_what_may_have_been_written_since_the_last_answer_is_unread(looking: Looking) -> None:
    looking.look(1, *TOPICS)
    looking.look(2.0)
    assert looking.behind_s == pytest.approx(1.0)


def test_the_wait_is_bounded_and_ends(looking: Looking) -> None:
    looking.look(1, *TOPICS)
    looking.ears.end = 1
    looking.look(FORGOTTEN_S - 1, *TOPICS)
    assert looking.behind_s == LONGEST_S
    looking.look(2, *TOPICS)
    assert not looking.behind_s


def test_inputs_that_are_not_to_be_read_are_not_waited_for(looking: Looking) -> None:
    looking.ears.end, looking.ears.answered = 1, dict.fromkeys(TOPICS, None)
    looking.look(20)
    assert not looking.behind_s


def test_a_partition_that_has_caught_up_starts_again(looking: Looking) -> None:
    looking.ears.end = 1
    looking.look(3.0, *TOPICS)
    assert looking.behind_s
    looking.partition._state = State.CATCHING_UP
    looking.look(0.25, *TOPICS)
    looking.partition._state, looking.ears.read = State.LIVE, 1
    looking.look(0.25, *TOPICS)
    assert not looking.behind_s


def test_records_that_came_while_a_partition_caught_up_are_unread(looking: Looking) -> None:
    looking.partition.catch_up()
    looking.look(0.25, *TOPICS)
    looking.ears.end = 1

    looking.partition.go_live(looking.now_s - 2.5)
    looking.look_at_once()
    assert looking.behind_s == pytest.approx(1.5), "the margin of the forwards is one second"

    looking.ears.read = 1
    looking.look(0.25, *TOPICS)
    assert not looking.behind_s


# namespaces ----------------------------------------------------------------------------------------------------------
@pytest.fixture
async def teams(tmp_path: Path) -> AsyncIterator[Looking]:
    async with Stage(tmp_path) as stage:
        yield Looking(stage.partition, WITH_TEAMS)


def test_messages_wait_for_no_input_of_another_namespace(teams: Looking, caplog: pytest.LogCaptureFixture) -> None:
    teams.ears.ends[ORDERS] = 1
    teams.look(5, *WITH_TEAMS)
    assert not teams.behind_s
    assert teams.apart_s == {"orders": pytest.approx(1.75)}
    [said] = [one.getMessage() for one in caplog.records]
    behind, waits = said.split(": ")
    assert behind == "partition 0 is 3.2 s behind in orders-delays"
    assert waits == "due messages of the namespace orders wait until it has caught up, for at most 10 s"


def test_messages_of_all_namespaces_wait_for_inputs_that_name_ids_of_all(teams: Looking) -> None:
    teams.ears.ends = {REQUESTS: 1, ORDERS: 1}
    teams.look(5, *WITH_TEAMS)
    assert teams.behind_s == pytest.approx(1.75)
    assert teams.apart_s == {}, "it waits no longer than all others"


def test_a_namespace_that_is_further_behind_than_all_waits_longer(teams: Looking) -> None:
    teams.ears.ends[ORDERS] = 1
    teams.look(2, *WITH_TEAMS)
    teams.ears.ends[REQUESTS] = 1
    teams.look(4, *WITH_TEAMS)
    assert teams.behind_s == pytest.approx(1.0)
    assert teams.apart_s == {"orders": pytest.approx(2.75)}
    teams.ears.read = 1
    teams.look(0.25, *WITH_TEAMS)
    assert (teams.behind_s, teams.apart_s) == (0.0, {})
