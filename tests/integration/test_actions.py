"""Actions over HTTP on a real Kafka: each is done, its outcome is reported, and it is written to the audit log."""

import json
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

from punctual.contract.home import home_partition
from tests.harness.kafka import delete_topic, now_ms, read
from tests.harness.waiting import LIMIT_S, ask_until, eventually
from tests.integration.installation import PARTITIONS, Installation

pytestmark = pytest.mark.core

HOUR_MS = 3_600_000


def post(installation: Installation, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    """POST an action; return the status and the answer."""
    url, raw = f"{installation.worker.url}/api/v1{path}", json.dumps(body or {}).encode()
    request = urllib.request.Request(url, raw, {"Content-Type": "application/json", **headers})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310 - our own worker
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def get(installation: Installation, path: str) -> tuple[int, Any]:
    """GET a path; return the status and the answer."""
    try:
        with urllib.request.urlopen(f"{installation.worker.url}/api/v1{path}", timeout=LIMIT_S) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def made(installation: Installation, **more: object) -> str:
    """Ask for a message in an hour; return its id."""
    body = {"to": installation.topic(), "at": now_ms() + HOUR_MS, "value": "v", **more}
    status, answer = post(installation, "/messages", body)
    assert (status, answer["outcome"]) == (201, "accepted"), answer
    return str(answer["event"]["id"])


def test_a_message_is_created_found_moved_and_delivered_now(installation: Installation) -> None:
    to = installation.topic()
    body = {"to": to, "after": "PT1H", "id": "a/b c", "key": "k", "value": {"base64": "AAH/"}, "headers": {"h": "1"}}
    created = post(installation, "/messages", body)[1]
    assert created["outcome"] == "accepted"
    status, row = get(installation, "/messages/a%2Fb%20c")
    assert (status, row["value"], row["to"]) == (200, {"base64": "AAH/"}, to)
    assert row["due_ms"] == created["due_ms"] == created["event"]["due"]

    moved = now_ms() + 2 * HOUR_MS
    status, answer = post(installation, "/messages/a%2Fb%20c/reschedule", {"at": moved})
    assert (status, answer["outcome"]) == (200, "rescheduled")
    assert get(installation, "/messages/a%2Fb%20c")[1]["due_ms"] == moved

    status, answer = post(installation, "/messages/a%2Fb%20c/deliver-now")
    assert (status, answer.get("outcome")) == (200, "rescheduled"), answer
    assert answer["sentence"] == "Due now; it is being delivered."
    [record] = installation.wait_for(to, 1)
    assert (record.key, record.value, record.header("h")) == (b"k", b"\x00\x01\xff", "1")


def test_a_message_s_history_is_shown_while_it_is_pending_and_afterwards(installation: Installation) -> None:
    to = installation.topic()
    post(installation, "/messages", {"to": to, "after": "PT1H", "id": "told", "value": "v"})
    hourly = post(installation, "/messages", {"to": to, "cron": "*/90 * * * *", "id": "hourly", "value": "v"})[1]
    assert "the step of */90 is longer than the minute field" in hourly["warning"]
    post(installation, "/messages/hourly/cancel", {})
    post(installation, "/messages/told/reschedule", {"after": "PT2H"})
    status, answer = get(installation, "/messages/told?life=1")
    assert (status, [event["event"] for event in answer["life"]]) == (200, ["accepted", "rescheduled"])
    post(installation, "/messages/told/deliver-now")
    installation.wait_for(to, 1)
    installation.await_event("delivered", "told")
    status, answer = ask_until(
        lambda: get(installation, "/messages/told?life=1"), lambda said: said[0] == 404, "the end of the message"
    )
    assert [event["event"] for event in answer["life"]] == ["accepted", "rescheduled", "rescheduled", "delivered"]
    assert answer["looked_back_to_ms"] is None
    offsets = [event["offset"].rpartition("-") for event in answer["life"]]
    assert {topic for topic, _, _ in offsets} == {f"{installation.app_id}-events-{home_of(installation, 'told')}"}
    assert [int(offset) for _, _, offset in offsets] == sorted(int(offset) for _, _, offset in offsets)


def home_of(installation: Installation, id_: str) -> int:
    """Return the partition in which an id lives."""
    return home_partition(id_, {installation.requests.topic}, PARTITIONS)


def test_a_cancel_applies_and_a_second_one_reports_that_the_message_is_not_pending(installation: Installation) -> None:
    id_ = made(installation)
    assert post(installation, f"/messages/{id_}/cancel")[1]["outcome"] == "cancelled"
    assert get(installation, f"/messages/{id_}")[0] == 404
    status, answer = post(installation, f"/messages/{id_}/cancel")
    assert (status, answer["outcome"]) == (404, "unknown")
    assert answer["detail"].startswith("No longer pending: the message was cancelled ")


def test_a_cancel_that_comes_too_late_says_by_how_much(installation: Installation) -> None:
    to = installation.topic()
    post(installation, "/messages", {"to": to, "after": 1, "id": "gone", "value": "v"})
    installation.await_event("delivered", "gone")
    status, answer = post(installation, "/messages/gone/cancel")
    assert (status, answer["type"]) == (409, "/problems/came-too-late")
    assert answer["detail"].startswith("Too late: the message was delivered ")
    assert answer["detail"].endswith("s earlier.")


def test_an_action_on_a_message_that_has_changed_in_between_has_no_effect(installation: Installation) -> None:
    id_ = made(installation)
    seen = get(installation, f"/messages/{id_}")[1]["due_ms"]
    post(installation, f"/messages/{id_}/reschedule", {"after": "PT3H"})
    status, answer = post(installation, f"/messages/{id_}/cancel", {"if_due": seen})
    assert (status, answer["outcome"]) == (409, "conflict")
    assert get(installation, f"/messages/{id_}")[0] == 200


def test_a_refused_request_is_reported(installation: Installation) -> None:
    status, answer = post(installation, "/messages", {"to": "no-such-topic", "after": 1_000, "value": "v"})
    assert (status, answer["type"], answer["outcome"]) == (422, "/problems/unknown-topic", "refused")
    assert "unknown-topic" in answer["detail"]


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/messages", {"to": "t"}, 422, "delay-at or delay-after is missing"),
        ("/messages", {"to": "t", "after": "soon"}, 422, "delay-after"),
        ("/messages", {"to": "a b", "after": 1}, 422, "is not a valid topic name"),
        ("/messages", {"to": "t", "after": 1, "id": ""}, 422, "delay-id has 0 bytes"),
        ("/messages", {"to": "t", "at": 999999999999999}, 422, "the maximum delay is"),
        ("/messages", {"to": "t", "cron": "* * * */27,2-28 */1 1#5"}, 422, "never occurs: none of its months has that"),
        ("/messages", {"to": "t", "after": 1, "typo": 1}, 422, "unknown field `typo`"),
        ("/messages/x/reschedule", {}, 422, "delay-at or delay-after is missing"),
        ("/messages/x/cancel", {"if_due": "then"}, 422, "delay-if-due"),
        ("/destinations/a b/pause".replace(" ", "%20"), {}, 400, "is not a destination"),
        ("/destinations/a/pause", [1], 422, "Expected `object`"),
        ("/destinations/a/rate", {"rate": "fast"}, 400, "is not a rate"),
    ],
)
def test_nonsense_is_answered_with_a_sentence(
    installation: Installation, path: str, body: object, status: int, says: str
) -> None:
    answered, answer = post(installation, path, body)
    assert (answered, says in answer["detail"]) == (status, True), answer


def test_a_pause_keeps_the_cap_and_a_resume_too(installation: Installation) -> None:
    to = installation.topic()
    made(installation, to=to)
    assert post(installation, f"/destinations/{to}/rate", {"rate": "7/s burst 3"})[0] == 200
    eventually(lambda: _destination(installation, to).get("rate_per_s") == 7.0)
    assert post(installation, f"/destinations/{to}/pause", {"reason": "migration"})[0] == 200
    row = ask_until(lambda: _destination(installation, to), lambda row: row.get("paused"), "the pause")
    assert (row["paused"]["reason"], row["rate_per_s"]) == ("migration", 7.0)
    post(installation, "/messages", {"to": to, "after": 1, "value": "v"})
    assert post(installation, f"/destinations/{to}/resume")[0] == 200
    installation.wait_for(to, 1)
    row = ask_until(lambda: _destination(installation, to), lambda row: row and row["paused"] is None, "no pause")
    assert row["rate_per_s"] == 7.0


def _destination(installation: Installation, to: str) -> dict[str, Any]:
    rows = get(installation, "/destinations")[1].get("destinations", [])
    return next((row for row in rows if row["destination"] == to), {})


def test_every_act_is_written_down_with_its_outcome(installation: Installation) -> None:
    id_ = made(installation)
    post(installation, f"/messages/{id_}/cancel", {"if_due": 1})
    acts = [act for act in get(installation, "/audit")[1]["acts"] if act["target"] == id_]
    assert [(act["act"], act["outcome"], act["by"]) for act in acts] == [
        ("cancel", "conflict", "anonymous"), ("create", "accepted", "anonymous"),
    ]  # fmt: skip
    assert acts[0]["asked"] == {"id": id_, "if-due": "1"}
    records = read(installation.bootstrap, f"{installation.app_id}-audit")
    written = [act for act in (json.loads(record.value or b"") for record in records) if act["target"] == id_]
    assert [(act["act"], act.get("outcome")) for act in written] == [
        ("create", None), ("create", "accepted"), ("cancel", None), ("cancel", "conflict"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Content-Type": "text/plain"}, False),
        ({"Content-Type": "application/x-www-form-urlencoded"}, False),
    ],
)
def test_no_other_site_acts_through_a_reader_s_browser(
    installation: Installation,
    headers: dict[str, str],
    passes: bool,  # noqa: FBT001 - a case
) -> None:
    id_ = made(installation)
    status, answer = post(installation, f"/messages/{id_}/cancel", {}, **headers)
    assert (status == 200) == passes, answer
    assert (get(installation, f"/messages/{id_}")[0] == 404) == passes


def test_a_body_without_end_is_not_waited_for_nor_kept(installation: Installation) -> None:
    with socket.create_connection(("127.0.0.1", installation.worker.port), LIMIT_S) as connection:
        connection.sendall(
            b"POST /api/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 99999999\r\n\r\n"
        )
        connection.sendall(b" " * 9_000_000)
        assert b"413" in connection.recv(1_000)


def test_an_audit_and_jobs_that_were_deleted_are_created_again_by_the_next_action(installation: Installation) -> None:
    id_, others = made(installation), [made(installation), made(installation)]
    jobs = [{"act": "cancel", "filter": {"id_prefix": other}, "confirm": 1} for other in others]
    assert post(installation, "/jobs", jobs[0])[0] == 202
    for name in ("audit", "jobs"):
        delete_topic(installation.bootstrap, f"{installation.app_id}-{name}")

    assert post(installation, f"/messages/{id_}/deliver-now")[0] == 200
    status, answer = post(installation, "/jobs", jobs[1])
    assert status == 202, answer
    wanted = [answer["job"]["job_id"]]
    eventually(
        lambda: [one["job"]["job_id"] for one in get(installation, "/jobs")[1]["jobs"]] == wanted, what="the job"
    )
    assert {act["act"] for act in get(installation, "/audit")[1]["acts"]} >= {"deliver-now"}
