"""A topic that gets partitions, or is deleted, makes an idle worker exit with an error message that says what to do."""

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.harness.case import Case
from tests.harness.kafka import delete_topic
from tests.harness.waiting import LIMIT_S

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["requests", "forwards", "delays-changelog"])
def test_a_topic_that_gets_partitions_ends_the_worker_at_once(name: str, case: Case) -> None:
    topic = f"{case.app_id}-{name}"
    with case.worker() as worker:
        worker.start().wait_ready()
        admin = AdminClient({"bootstrap.servers": case.bootstrap, "log_level": 0})
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(LIMIT_S)
        assert worker.wait_dead(10) == 1
        assert f"{topic} now has 3 partitions; it had 2 when this worker started" in worker.log

        worker.start()
        assert worker.wait_dead() == 1
        assert f"topic {topic} has 3 partitions, but needs 2" in worker.log
        assert "Do not delete the topic" in worker.log
        assert ("repartition --to 3" in worker.log) == (name == "requests")


def test_a_deleted_topic_ends_the_worker_and_its_next_start_names_the_lost_messages(case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        for name, lost in (("controls", "Active pauses and rates"), ("events", "Events")):
            topic = f"{case.app_id}-{name}"
            delete_topic(case.bootstrap, topic)
            assert worker.wait_dead(10) == 1
            assert f"{topic}: deleted while this worker was using it" in worker.log
            worker.start().wait_ready()
            assert f"topic {topic} is missing and is created again. {lost}" in worker.log
