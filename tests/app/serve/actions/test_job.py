"""A job as it is written down: it keeps to its namespaces whoever goes on with it."""

import msgspec
import pytest

from app.serve.actions.job import Job, command_for, concerns, ends_by_crc
from app.serve.dead_letters.dead_letter import DeadLetterFilter
from app.serve.search.filter import Filter
from app.serve.search.pending import PendingMessage
from app.serve.search.scan import Place, Row
from punctual.contract.namespaces import parse_namespaces
from tables import keys

THERE = parse_namespaces("a-in=team-a,b-in=team-b")
JOB = Job(job_id="j", at_ms=1, by="x", role="admin", act="cancel", filter=Filter(), counted=1, ends=[{}])


@pytest.mark.parametrize(
    "job",
    [
        msgspec.structs.replace(JOB, filter=Filter(to="t", within=THERE.part(["team-a"]))),
        msgspec.structs.replace(JOB, act="resend", dead_letters=DeadLetterFilter(within=THERE.part(["team-a"]))),
    ],
)
def test_a_job_stays_within_its_namespaces_after_a_crash(job: Job) -> None:
    again = msgspec.json.decode(msgspec.json.encode(job), type=Job)
    assert again == job
    assert again.namespaces == {"team-a"}
    within = (again.dead_letters or again.filter).within
    assert within is not None
    assert [within.of_id(id_) for id_ in ("team-a/x", "a-in-0-1", "team-b/x", "b-in-0-1", "x")] == [
        *("team-a", "team-a", "", "", "")
    ]


MESSAGE = PendingMessage(id="x", to="t", due_ms=1_000, source="s", partition=0)


def test_the_records_before_a_job_are_known_where_offsets_continue_from_an_earlier_log() -> None:
    job = msgspec.structs.replace(JOB, ends=[{"forwards": 1_000, "requests": 70}])
    bases = {"forwards": 5_000_001, "requests": 0}
    ends = ends_by_crc(job, 0, bases.__getitem__)

    def concerned(topic: str, offset: int) -> bool:
        place = bytes(8) + offset.to_bytes(8, "big") + keys.topic_crc(topic).to_bytes(4, "big")
        return concerns(ends, Row(Place(place, 0), MESSAGE))

    before = [("forwards", 17), ("forwards", 5_000_000), ("forwards", 5_001_000), ("requests", 69)]
    assert all(concerned(*one) for one in before)
    assert not any(concerned(*one) for one in (("forwards", 5_001_001), ("requests", 70)))


def test_a_command_for_a_series_does_not_name_the_occurrence_that_was_seen() -> None:
    plain = Row(Place(), MESSAGE)
    recurring = Row(Place(), msgspec.structs.replace(MESSAGE, occurrence=1))

    assert dict(command_for(JOB, plain).headers)["delay-if-due"] == b"1000"
    assert "delay-if-due" not in dict(command_for(JOB, recurring).headers)


def test_a_job_about_all_messages_names_no_namespaces() -> None:
    assert JOB.namespaces == frozenset()
