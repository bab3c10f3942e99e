"""A job as it is written down: it keeps to its namespaces whoever goes on with it."""

import msgspec
import pytest

from app.acts.job import Job
from app.dead_letters.filter import DeadLetterFilter
from app.search.filter import Filter
from punctual.contract.namespaces import parse_namespaces

THERE = parse_namespaces("a-in=team-a,b-in=team-b")
JOB = Job(job_id="j", at_ms=1, by="x", role="admin", act="cancel", filter=Filter(), counted=1, ends=[{}])


@pytest.mark.parametrize(
    "job",
    [
        msgspec.structs.replace(JOB, filter=Filter(to="t", within=THERE.part(["team-a"]))),
        msgspec.structs.replace(JOB, act="resend", dead_letters=DeadLetterFilter(within=THERE.part(["team-a"]))),
    ],
)
def test_a_job_goes_on_within_its_namespaces_after_a_crash(job: Job) -> None:
    again = msgspec.json.decode(msgspec.json.encode(job), type=Job)
    assert again == job
    assert again.namespaces == {"team-a"}
    within = (again.dead_letters or again.filter).within
    assert within is not None
    assert [within.of_id(id_) for id_ in ("team-a/x", "a-in-0-1", "team-b/x", "b-in-0-1", "x")] == [
        *("team-a", "team-a", "", "", "")
    ]


def test_a_job_about_everything_is_about_no_namespaces() -> None:
    assert JOB.namespaces == frozenset()
