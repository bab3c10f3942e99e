"""A changelog that has lost records is never restored silently, and a complete database writes it again."""

import pytest
from confluent_kafka import OFFSET_END, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.harness.case import Case
from tests.harness.kafka import create_topic, delete_topic, ends, now_ms
from tests.harness.waiting import LIMIT_S, eventually
from tests.harness.worker import Worker
from tests.integration.installation import alter_topic

pytestmark = pytest.mark.slow

FAR_MS = 3_600_000


def ids(name: str) -> set[str]:
    return {f"{name}-{number}" for number in range(10)}


def changelog(case: Case) -> str:
    return f"{case.app_id}-delays-changelog"


def delete_records(case: Case) -> None:
    """Delete all records that the changelog has, as retention does while the policy is not compaction alone."""
    alter_topic(case.bootstrap, changelog(case), cleanup_policy="compact,delete")
    admin = AdminClient({"bootstrap.servers": case.bootstrap, "log_level": 0})
    places = [TopicPartition(changelog(case), number, OFFSET_END) for number in range(case.partitions)]
    for deleted in admin.delete_records(places).values():
        deleted.result(LIMIT_S)
    alter_topic(case.bootstrap, changelog(case), cleanup_policy="compact")


def work(case: Case, worker: Worker) -> None:
    """Have ten messages delivered and ten pending, then kill the worker."""
    worker.start().wait_ready()
    for id_ in sorted(ids("pending")):
        case.schedule(id_, now_ms() + FAR_MS)
    for id_ in sorted(ids("done")):
        case.schedule(id_, now_ms())
    case.requests.flush()
    case.wait_delivered(ids("done"))
    case.wait_accepted(ids("pending"))
    eventually(lambda: case.account().sums["pending"] == len(ids("pending")), what="the account")
    worker.kill()


def has_committed(case: Case) -> bool:
    """Return whether the worker has committed its position at the end of the requests."""
    consumer = Consumer({"bootstrap.servers": case.bootstrap, "group.id": case.app_id, "log_level": 0})
    try:
        places = [TopicPartition(case.requests.topic, number) for number in range(case.partitions)]
        committed = {one.partition: one.offset for one in consumer.committed(places, LIMIT_S)}
        return all(committed[one.partition] >= consumer.get_watermark_offsets(one, LIMIT_S)[1] for one in places)
    finally:
        consumer.close()


def release(case: Case, name: str) -> None:
    """Deliver pending messages now, and check that none came twice."""
    for id_ in sorted(ids(name)):
        case.requests.command("deliver-now", id_)
    case.requests.flush()
    case.wait_delivered(ids(name))
    assert not case.deliveries().repeats


def said_when_stopped(worker: Worker) -> str:
    worker.start()
    eventually(lambda: "is stopped" in worker.ready()[1], what="the stop")
    return worker.ready()[1]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_changelog_that_has_lost_its_head_is_written_again_or_stops_its_partitions(
    guarantee: str, case: Case
) -> None:
    with case.worker(env={"DELAY_GUARANTEE": guarantee}) as worker:
        work(case, worker)
        delete_records(case)
        worker.start().wait_ready()  # the database is complete
        assert "writing them again" in worker.log
        worker.kill()
        worker.wipe()
        worker.start().wait_ready()  # and so is the changelog now
        release(case, "pending")
        eventually(
            lambda: has_committed(case), what="the commit"
        )  # without a changelog, it would read uncommitted requests again
        worker.kill()

        delete_records(case)
        worker.wipe()
        said = said_when_stopped(worker)
        assert "its first records were deleted" in said
        assert f"DELAY_ACCEPT_LOSS={changelog(case)}-0" in said
        worker.kill()

        worker.env["DELAY_ACCEPT_LOSS"] = changelog(case)
        worker.start().wait_ready()
        assert "DELAY_ACCEPT_LOSS accepts this" in worker.log
        for id_ in sorted(ids("new")):
            case.schedule(id_, now_ms() + FAR_MS)
        release(case, "new")
        assert case.deliveries().ids == ids("done") | ids("pending") | ids("new")


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_changelog_that_was_deleted_stops_the_start_until_databases_may_write_it(guarantee: str, case: Case) -> None:
    with case.worker(env={"DELAY_GUARANTEE": guarantee}) as worker, case.worker("other") as other:
        work(case, worker)
        worker.start().wait_ready()
        delete_topic(case.bootstrap, changelog(case))
        assert worker.wait_dead(10) == 1  # even an idle worker notices
        assert "deleted while this worker was using it" in worker.log
        for one in (worker, other):  # the other worker's disk is empty: it knows by the group's offsets
            one.start()
            assert one.wait_dead() == 1
            assert f"topic {changelog(case)} is missing" in one.log

        create_topic(
            case.bootstrap, changelog(case), case.partitions, cleanup_policy="compact", max_message_bytes="2097164"
        )
        said = said_when_stopped(worker)
        assert f"DELAY_ACCEPT_LOSS=recreated:{changelog(case)}" in said
        worker.kill()
        assert "has no positions for inputs that were read before" in said_when_stopped(other)
        other.kill()

        worker.env["DELAY_ACCEPT_LOSS"] = f"recreated:{changelog(case)}"
        worker.start().wait_ready(90)
        worker.kill()
        worker.wipe()
        worker.start().wait_ready()
        release(case, "pending")
        assert case.deliveries().ids == ids("done") | ids("pending")
        assert all(ends(case.bootstrap, changelog(case)).values())
