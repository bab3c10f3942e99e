"""At the start, only errors that another attempt can fix are retried, such as brokers that were lost a moment ago."""

import aiokafka.errors as kafka
import pytest

from app.base import patience
from app.base.patience import patiently


class Cluster:
    """Fails as often as a test says."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.asked = 0

    async def ask(self) -> str:
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return "answer"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_AGAIN_S", 0.0)


async def test_a_broker_that_has_just_been_lost_is_waited_for() -> None:
    cluster = Cluster(
        kafka.NodeNotReadyError("broker 1"), kafka.KafkaConnectionError(), kafka.NotLeaderForPartitionError()
    )

    assert await patiently(cluster.ask, "checking topics") == "answer"


async def test_an_error_that_another_attempt_cannot_fix_is_raised_at_once() -> None:
    cluster = Cluster(kafka.TopicAuthorizationFailedError("delay-requests"))

    with pytest.raises(kafka.TopicAuthorizationFailedError):
        await patiently(cluster.ask, "checking topics")
    assert cluster.asked == 1


async def test_brokers_that_stay_away_are_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.0)
    cluster = Cluster(*[kafka.NodeNotReadyError("broker 1")] * 10)

    with pytest.raises(kafka.NodeNotReadyError):
        await patiently(cluster.ask, "checking topics")
