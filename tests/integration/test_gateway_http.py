"""The gateway's addresses on a real Kafka with a real worker: messages come, are seen, acted on, and delivered."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.api_examples import ADDRESS, differences, encoded, examples
from tests.harness.gateway import GatewayProcess
from tests.harness.kafka import now_ms
from tests.harness.waiting import LIMIT_S, eventually
from tests.harness.worker import ROOT
from tests.integration.installation import Installation, running

pytestmark = pytest.mark.core

PAGE = ROOT / "docs/reference/gateway.md"
HOUR_MS = 3_600_000
SECRET = {"DELAY_WEB_SECRET": "the workers' own"}


class Asker:
    """A client without Kafka, only HTTP."""

    def __init__(self, gateway: GatewayProcess, installation: Installation) -> None:
        self.gateway, self.installation = gateway, installation

    def raw(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], str]:
        """Send a request; return status, headers and body."""
        sent = {
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        request = urllib.request.Request(f"{self.gateway.url}{path}", body, sent, method=method)  # noqa: S310 - our own
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310
                return answer.status, dict(answer.headers), answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read().decode()

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Ask with JSON; return status and the answer from JSON."""
        raw = None if body is None else json.dumps(body).encode()
        status, _, said = self.raw(method, path, raw, **headers)
        return status, json.loads(said)

    def send(self, **message: object) -> dict[str, Any]:
        """Send a message, and return the answer."""
        status, answer = self.ask("POST", "/api/v1/messages", message)
        assert status == 201, answer
        return dict(answer)


@pytest.fixture(scope="module")
def asker(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    directory = tmp_path_factory.mktemp("gateway")

    def env(app_id: str) -> dict[str, str]:
        return {**SECRET, "DELAY_INPUTS": f"{app_id}-countdowns=countdown", "GATEWAY_CONFLUENT": "on"}

    with running(bootstrap, directory, "gateway", env=env) as made:
        gateway = GatewayProcess(bootstrap, made.app_id, directory / "gateway", env=env(made.app_id))
        with gateway:
            yield Asker(gateway, made)
            assert "Traceback" not in gateway.log


def header(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": encoded(value)}


def test_a_message_in_the_short_form_is_delivered_as_it_was_sent(asker: Asker) -> None:
    to = asker.installation.topic()
    asker.send(to=to, after=100, key="k", value={"a": [1.50, None]}, headers=[["h", "1"], ["h", {"base64": "/w=="}]])
    [record] = asker.installation.wait_for(to, 1)
    assert (record.key, record.value) == (b"k", b'{"a":[1.5,null]}')
    assert [pair for pair in record.headers if pair[0] == "h"] == [("h", b"1"), ("h", b"\xff")]


def test_a_message_in_the_record_form_is_delivered_as_it_was_sent(asker: Asker) -> None:
    to = asker.installation.topic()
    record = {
        "key": {"type": "STRING", "data": "k"},
        "value": {"type": "BINARY", "data": "AAH/"},
        "headers": [header("delay-to", to), header("delay-after", "PT0.1S"), header("h", "1")],
    }
    status, answer = asker.ask("POST", "/api/v1/messages", record)
    assert (status, answer["to"]) == (201, to)
    [delivered] = asker.installation.wait_for(to, 1)
    assert (delivered.key, delivered.value, delivered.header("delay-id")) == (b"k", b"\x00\x01\xff", answer["id"])


def test_a_batch_has_an_outcome_for_each_of_its_messages(asker: Asker) -> None:
    to = asker.installation.topic()
    batch = [
        {"to": to, "after": 1, "value": "one"},
        {"to": f"{to}-not-there", "after": 1},
        {"to": f"{asker.installation.app_id}-events", "after": 1},
        {"to": to, "after": 1, "value": "two"},
    ]
    results: list[dict[str, Any]] = []

    def answered() -> bool:
        """Send the batch; return whether the broker has told the gateway in time which topics are there."""
        status, answer = asker.ask("POST", "/api/v1/messages", batch)
        results[:] = answer["results"]
        return [status, *(one["status"] for one in results)] == [207, 201, 422, 403, 201]

    eventually(answered, what="an outcome for each message")
    assert [one.get("type") for one in results[1:3]] == ["/problems/unknown-topic", "/problems/not-allowed"]
    assert results[1]["errors"][0]["pointer"] == "#/1/to"
    assert {record.value for record in asker.installation.wait_for(to, 2)} == {b"one", b"two"}


def test_a_message_is_seen_moved_if_it_is_due_as_seen_and_delivered_now(asker: Asker) -> None:
    to, id_ = asker.installation.topic(), "a/b c"
    asker.send(to=to, after="PT1H", value="v", id=id_, key="k")
    status, headers, said = asker.raw("GET", "/api/v1/messages/a/b%20c")
    row = json.loads(said)
    assert (status, row["value"], row["to"], headers["ETag"]) == (200, "v", to, f'"{row["due_ms"]}"')

    moved = now_ms() + 2 * HOUR_MS
    status, answer = asker.ask("PATCH", "/api/v1/messages/a%2Fb%20c", {"at": moved}, If_Match=f'"{moved}"')
    assert (status, answer["type"]) == (412, "/problems/changed")
    status, headers, said = asker.raw(
        "PATCH", "/api/v1/messages/a%2Fb%20c", b'{"at": %d}' % moved, If_Match=headers["ETag"]
    )
    assert (status, json.loads(said)["outcome"], headers["ETag"]) == (200, "rescheduled", f'"{moved}"')
    assert asker.ask("GET", "/api/v1/messages/a%2Fb%20c")[1]["due_ms"] == moved

    status, answer = asker.ask("POST", "/api/v1/messages/a/b%20c/deliver-now")
    assert (status, answer["outcome"], answer["sentence"]) == (200, "rescheduled", "Due now; it is being delivered.")
    asker.installation.wait_for(to, 1)
    asker.installation.await_event("delivered", id_)
    eventually(lambda: asker.ask("GET", "/api/v1/messages/a/b%20c")[0] == 404, what="the end of the message")
    status, answer = asker.ask("DELETE", "/api/v1/messages/a/b%20c")
    assert (status, answer["type"], answer["ended"]) == (409, "/problems/came-too-late", "delivered")


def test_a_cancelled_message_is_unknown_afterwards(asker: Asker) -> None:
    id_ = asker.send(to=asker.installation.topic(), after="PT1H")["id"]
    status, answer = asker.ask("DELETE", f"/api/v1/messages/{id_}")
    assert (status, answer["outcome"]) == (200, "cancelled")
    status, answer = asker.ask("DELETE", f"/api/v1/messages/{id_}")
    assert (status, answer["type"], answer["ended"]) == (404, "/problems/unknown-message", "cancelled")


def test_a_request_repeated_with_its_id_and_due_time_is_delivered_once(asker: Asker) -> None:
    to, at = asker.installation.topic(), now_ms() + 100
    for _ in range(2):
        asker.send(to=to, at=at, id="again")
        asker.installation.await_event("delivered", "again")
    asker.installation.await_event("duplicate", "again")
    assert len(asker.installation.wait_for(to, 1)) == 1


def test_records_are_taken_and_answered_as_confluent_s_proxy_does(asker: Asker) -> None:
    made = asker.installation
    to = made.topic()
    records = [
        {"value": {"type": "STRING", "data": "three"}, "headers": [header("delay-to", to), header("delay-after", "1")]},
        {"value": {"type": "STRING", "data": "nowhere"}, "headers": [header("delay-after", "1")]},
        {"value": {"type": "JSON", "data": 4}, "headers": [header("delay-to", to), header("delay-after", "1")]},
    ]
    body = "".join(json.dumps(record) for record in records).encode()
    status, _, said = asker.raw("POST", f"/kafka/v3/clusters/x/topics/{made.app_id}-requests/records", body)
    first, second, third = map(json.loads, said.splitlines())
    assert (status, first["error_code"], second["error_code"], third["error_code"]) == (200, 200, 400, 200)
    assert (first["cluster_id"], first["topic_name"], first["value"]) == (
        "x",
        f"{made.app_id}-requests",
        {"type": "STRING", "size": 5},
    )
    assert first["offset"] >= 0
    assert first["timestamp"].endswith("Z")
    assert {record.value for record in made.wait_for(to, 2)} == {b"three", b"4"}


def test_records_of_another_dialect_are_taken_for_its_input(asker: Asker) -> None:
    made = asker.installation
    to = made.topic()
    value = {"topic": to, "message": {"a": 1}, "countdown": 0.1}
    path = f"/kafka/v3/clusters/x/topics/{made.app_id}-countdowns/records"
    status, answer = asker.ask("POST", path, {"value": {"type": "JSON", "data": value}})
    assert (status, answer["error_code"]) == (200, 200)
    [record] = made.wait_for(to, 1)
    assert record.value == b'{"a":1}'


def test_a_topic_that_is_no_input_is_none_of_the_gateway_s(asker: Asker) -> None:
    to = asker.installation.topic()
    status, answer = asker.ask("POST", f"/kafka/v3/clusters/x/topics/{to}/records", {"value": None})
    assert (status, answer["error_code"]) == (404, 40403)


def test_the_commands_of_the_references_have_the_described_effects(asker: Asker, tmp_path: Path) -> None:
    made = asker.installation
    to = made.topic()
    names = {
        ADDRESS: asker.gateway.url,
        "http://127.0.0.1:6067": asker.gateway.url,
        '"reminders"': f'"{to}"',
        encoded("reminders"): encoded(to),
        "delay-requests": f"{made.app_id}-requests",
    }
    shared = examples("Schedule messages", "Read a message", "Change a message")
    own = examples(page=PAGE)
    eventually(lambda: asker.ask("GET", "/api/v1/messages/order-42")[0] == 404, what="a report of the ID's partition")
    said: list[Any] = []
    for example in (*shared, *own):
        decoder, text = json.JSONDecoder(), example.replaced(names).run(tmp_path)[1].strip()
        while text:
            answer, end = decoder.raw_decode(text)
            said.append(answer)
            text = text[end:].strip()
    sent, series, record, batch, seen, moved, paused, resumed, now, cancelled, *late, changed = said[: len(shared)]
    spooled, *reports, ready = said[len(shared) :]
    assert [(one["status"], one["id"]) for one in (sent, series, record, spooled)] == [
        (201, "order-42"),
        (201, "report"),
        (201, "order-43"),
        (201, "order-45"),
    ]
    assert [one["status"] for one in batch["results"]] == [201, 422]
    assert (seen["id"], seen["value"]) == ("order-42", '{"order":42}')
    assert [moved["outcome"], cancelled["outcome"], now["outcome"]] == ["rescheduled", "cancelled", "rescheduled"]
    assert [paused["sentence"], resumed["outcome"]] == ["Paused.", "rescheduled"]
    assert [one["type"] for one in (*late, changed)] == [*["/problems/unknown-message"] * 2, "/problems/changed"]
    assert [report["error_code"] for report in reports] == [200, 400]
    assert differences(own[-1].answer, ready) == []
    assert [delivered.value for delivered in made.wait_for(to, 1)] == [b'{"order":43}']


def test_a_command_is_accepted_even_if_no_worker_serves_its_partition_and_the_answer_says_so(asker: Asker) -> None:
    made = asker.installation
    id_ = asker.send(to=made.topic(), after="PT1H")["id"]
    made.await_event("accepted", id_)
    made.worker.stop()
    status, answer = asker.ask("DELETE", f"/api/v1/messages/{id_}")
    assert (status, answer["outcome"]) == (202, "pending")
    status, answer = asker.ask("GET", f"/api/v1/messages/{id_}")
    assert (status, answer["type"]) == (503, "/problems/unreachable")
    made.worker.start().wait_ready()
    made.await_event("cancelled", id_)
