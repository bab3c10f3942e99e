"""Dead letters on a real Kafka: found by any field, corrected, and sent again, one by one or by a job."""

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.harness.kafka import create_topic, now_ms, read
from tests.harness.pace import Stopwatch
from tests.harness.waiting import ask_until, eventually
from tests.integration.conftest import Run
from tests.integration.installation import Installation
from tests.integration.test_actions import get, post

MANY = 6_000


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("again", env=lambda app_id: {"DELAY_INPUTS": f"{app_id}-json=countdown"}) as made:
        yield made


def lost(installation: Installation, count: int = 1, **more: str) -> str:
    """Ask for messages to a topic that is not there, and return its name."""
    to = f"{installation.app_id}-{now_ms()}-missing"
    before = found(installation, to=to)
    for number in range(count):
        headers = {"delay-to": to, "delay-after": "0", "h": "1", **more}
        installation.requests.send(headers, b"k\xff", b"%d" % number)
    installation.requests.flush()
    eventually(lambda: counted(installation, to=to) == len(before) + count, what="the dead letters")
    return to


def found(installation: Installation, **query: str) -> list[dict[str, Any]]:
    """Return all that fit, page by page."""
    rows, more = list[dict[str, Any]](), dict[str, str]()
    while True:
        status, page = get(installation, f"/dead-letters?{urlencode({**query, **more})}")
        assert status == 200, page
        rows += page["rows"]
        if page["next"] is None:
            return rows
        more = {"cursor": page["next"]}


def counted(installation: Installation, **query: str) -> int:
    status, answer = get(installation, f"/dead-letters/count?{urlencode(query)}")
    assert (status, answer["complete"]) == (200, True), answer
    return int(answer["matching"])


def appear(installation: Installation, *topics: str) -> None:
    """Create topics, and wait until the worker checks for them again: it caches the absence for a second."""
    for topic in topics:
        create_topic(installation.bootstrap, topic)
    time.sleep(1.1)


def again(installation: Installation, row: dict[str, Any], **body: object) -> tuple[int, Any]:
    return post(installation, f"/dead-letters/{row['partition']}-{row['offset']}/resend", body)


def test_they_are_found_by_each_part_newest_first_on_pages_that_leave_none_out(installation: Installation) -> None:
    begin = now_ms()
    to = lost(installation, 25)
    other = lost(installation, 3)
    rows = found(installation, to=to, limit="4")
    assert len(rows) == 25
    assert len({(row["partition"], row["offset"]) for row in rows}) == 25
    times = [row["at_ms"] for row in rows]
    assert times == sorted(times, reverse=True)
    assert {(row["reason"], row["to"], row["value_bytes"] > 0) for row in rows} == {("unknown-topic", to, True)}

    source = rows[0]["source"]
    assert [row["source"] for row in found(installation, source=source)] == [source]
    assert counted(installation, written_from=str(begin), reason="unknown-topic") == 28
    assert counted(installation, written_to=str(begin - 1), to=to) == 0
    assert counted(installation, written_to=str(times[-1]), to=to) == times.count(times[-1])
    assert counted(installation, reason="too-far") == 0
    assert counted(installation, to=other, sent_again="no") == 3


def test_one_is_sent_again_as_it_is_once_its_cause_is_gone(installation: Installation) -> None:
    to = lost(installation)
    [row] = found(installation, to=to)
    appear(installation, to)
    status, answer = again(installation, row)
    assert (status, answer["outcome"]) == (200, "accepted"), answer
    [record] = installation.wait_for(to, 1)
    assert (record.key, record.value, record.header("h")) == (b"k\xff", b"0", "1")

    [row] = found(installation, to=to, sent_again="yes")
    assert row["sent_again"]["by"] == "anonymous"
    acts = [act for act in get(installation, "/audit")[1]["acts"] if act["act"] == "resend"]
    assert acts[0]["target"] == f"dead letter {row['partition']}-{row['offset']}"
    assert acts[0]["outcome"] == "accepted"


def test_a_corrected_dead_letter_keeps_the_rest_byte_for_byte(installation: Installation) -> None:
    to = installation.topic()
    installation.requests.send({"delay-after": "0", "delay-id": "no-to", "a": "1", "b": "2"}, b"\x00", b"\xff\xfe")
    installation.requests.flush()
    eventually(lambda: counted(installation, id_prefix="no-to") == 1)
    [row] = found(installation, id_prefix="no-to")
    assert row["reason"] == "missing-destination"
    status, answer = again(installation, row)
    assert (status, answer["outcome"]) == (422, "refused")
    status, answer = again(installation, row, headers={"delay-to": to, "a": None, "c": {"base64": "/w=="}})
    assert (status, answer["outcome"]) == (200, "accepted"), answer
    [record] = installation.wait_for(to, 1)
    assert (record.key, record.value) == (b"\x00", b"\xff\xfe")
    users = [(name, value) for name, value in record.headers if not name.startswith("delay-")]
    assert users == [("b", b"2"), ("c", b"\xff")]


def test_one_of_another_system_s_format_goes_back_to_its_own_input(installation: Installation) -> None:
    to, topic = installation.topic(), f"{installation.app_id}-json"
    installation.requests.send({"CALLER_SERVICE": "billing"}, b"k", b"{no json", topic=topic)
    installation.requests.flush()
    eventually(lambda: counted(installation, source=topic) == 1)
    [row] = found(installation, source=topic)
    assert (row["id"], row["to"], row["reason"]) == (None, None, "malformed")
    body = f'{{"topic": "{to}", "message": "hello", "countdown": 0}}'
    status, answer = again(installation, row, value=body)
    assert (status, answer["outcome"]) == (200, "accepted"), answer
    assert answer["source"].startswith(f"{topic}-")
    [record] = installation.wait_for(to, 1)
    assert (record.value, record.header("CALLER_SERVICE")) == (b"hello", "billing")


def test_one_whose_attempts_are_exhausted_is_accepted_wherever_its_new_id_is_at_home(
    installation: Installation,
) -> None:
    """The id of a retry is made from the record's offset, which is unknown before it is sent."""
    to = installation.topic()
    retry = {"delay-to": to, "delay-retry": "exponential 1s 2 1m", "delay-attempt": "3", "delay-max-attempts": "3"}
    for number in range(6):
        installation.requests.send(retry, b"%d" % number, b"v")
    installation.requests.flush()
    eventually(lambda: counted(installation, to=to) == 6)
    for row in found(installation, to=to):
        assert row["reason"] == "attempts-exhausted"
        with Stopwatch() as watch:
            status, answer = again(installation, row, headers={"delay-attempt": None})
        assert (status, answer["outcome"]) == (200, "accepted"), answer
        assert answer["event"]["source"] == answer["source"]
        assert watch.seconds < 8  # it does not wait for an event of another partition
    installation.wait_for(to, 6)


def test_a_job_reports_the_outcomes_of_the_requests_that_it_has_sent(installation: Installation) -> None:
    to, gone = installation.topic(), lost(installation, 3)
    retry = {"delay-to": to, "delay-retry": "exponential 1s 2 1m", "delay-attempt": "3", "delay-max-attempts": "3"}
    for number in range(3):
        installation.requests.send(retry, b"%d" % number, b"v")
    installation.requests.flush()
    eventually(lambda: counted(installation, to=to) == 3)
    for name, most, state, outcomes in (
        (gone, 3, "done", {"refused": 3}),
        (to, 3, "done", {"refused": 3}),
        (to, 2, "limited", {"refused": 2}),
    ):
        # Messages refused by the last job are dead letters again.
        eventually(lambda name=name: counted(installation, to=name, sent_again="no") == 3, what="three of them")  # type: ignore[misc]
        body = {"act": "resend", "filter": {"to": name, "sent_again": "no"}, "confirm": most}
        status, answer = post(installation, "/jobs", body)
        assert status == 202, answer
        path = f"/jobs/{answer['job']['job_id']}"
        eventually(lambda path=path: get(installation, path)[1].get("state") != "running", what="the job")  # type: ignore[misc]
        standing = get(installation, path)[1]
        assert (standing["state"], standing["sent"], standing["outcomes"]) == (state, most, outcomes)
        assert standing["untold"] == 0


@pytest.mark.slow
def test_a_job_sends_all_that_match_again_though_the_worker_is_killed(installation: Installation) -> None:
    spared, to = lost(installation, 10), lost(installation, MANY)
    appear(installation, spared, to)
    one = get(installation, f"/dead-letters?to={to}")[1]["rows"][0]
    assert again(installation, one)[0] == 200
    wanted = {"to": to, "sent_again": "no"}
    status, answer = post(installation, "/jobs", {"act": "resend", "filter": wanted, "confirm": MANY - 1})
    assert status == 202, answer
    path = f"/jobs/{answer['job']['job_id']}"
    eventually(lambda: get(installation, path)[1].get("sent", 0) > 0, what="the beginning")
    installation.worker.kill()
    time.sleep(0.5)
    installation.worker.start().wait_ready()
    eventually(lambda: get(installation, path)[1].get("state") == "done", what="the job")

    values = ask_until(
        lambda: [record.value for record in read(installation.bootstrap, to)],
        lambda found: set(found) == {b"%d" % number for number in range(MANY)},
        "all of them",
        len,
    )
    assert len(values) <= MANY + 4 * 500  # the batch of each partition that was on its way
    assert counted(installation, **wanted) == 0
    assert counted(installation, to=to, sent_again="yes") == MANY
    assert counted(installation, to=spared, sent_again="no") == 10
    job_id = path.rpartition("/")[2]
    marks = {row["sent_again"]["job_id"] for row in get(installation, f"/dead-letters?to={to}&limit=1000")[1]["rows"]}
    assert marks == {None, job_id}


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/dead-letters?written_from=soon", 400, "written_from='soon' is not a time"),
        ("/dead-letters?sent_again=maybe", 400, "yes or no"),
        ("/dead-letters?limit=0", 400, "limit='0'"),
        ("/dead-letters?cursor=7", 400, "`next` of an earlier response"),
        ("/dead-letters/0-999999", 404, "dead letter not found"),
        ("/dead-letters/999-0", 404, "dead letter not found"),
    ],
)
def test_nonsense_is_answered_with_a_sentence(installation: Installation, path: str, status: int, says: str) -> None:
    found, answer = get(installation, path)
    assert found == status
    assert says in answer["detail"]


def test_a_dead_letter_that_cannot_be_corrected_is_not_sent(installation: Installation) -> None:
    to = lost(installation)
    [row] = found(installation, to=to)
    assert again(installation, row, headers=["a"])[0] == 422
    assert again(installation, row, typo=1)[0] == 422
    assert again(installation, {"partition": 0, "offset": 999_999})[0] == 404
    status, answer = post(installation, "/jobs", {"act": "resend", "filter": {"due_from": 1}, "confirm": 1})
    assert (status, "some of reason, to" in answer["detail"]) == (400, True)
