"""Every route, with its answer while Kafka is down: accepted messages go to the disk."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from app.serve.access.token import digest_of, new_token
from punctual.contract.home import home_partition
from tests.app.gateway.conftest import Stage
from tests.app.gateway.test_openapi import operations

MESSAGE = {"to": "orders", "after": 1}
RECORDS = "/kafka/v3/clusters/any/topics/delay-requests/records"
PROBLEM = "application/problem+json"
BODY = "POST", "/api/v1/messages"
RECORD = {"value": {"type": "JSON", "data": 1}, "headers": [{"name": "delay-to", "value": "b3JkZXJz"}]}

#: Method, path, headers and body; the status of the answer, and the type of a problem, or an outcome.
ROUTES = [
    (*BODY, {}, MESSAGE, 202, None),
    (*BODY, {}, [MESSAGE, MESSAGE], 202, None),
    (*BODY, {}, [], 201, None),
    (*BODY, {}, [MESSAGE, {}], 207, None),
    (*BODY, {}, [{}, {}], 422, None),
    (*BODY, {}, [{}, {"to": "strange", "after": 1}], 422, None),
    (*BODY, {}, [{"to": "strange", "after": 1}] * 2, 403, None),
    (*BODY, {}, [MESSAGE] * 1_001, 413, "too-many-messages"),
    (*BODY, {}, {}, 422, "missing-destination"),
    (*BODY, {}, {"value": 1}, 422, "missing-destination"),
    (*BODY, {}, {"to": "strange", "after": 1}, 403, "not-allowed"),
    (*BODY, {}, RECORD, 422, "missing-due"),
    (*BODY, {}, b"", 400, "bad-json"),
    (*BODY, {}, b"{", 400, "bad-json"),
    (*BODY, {}, b"[{}, {]", 400, "bad-json"),
    (*BODY, {}, b"null", 422, "malformed"),
    (*BODY, {}, b"1", 422, "malformed"),
    (*BODY, {}, b"[null]", 422, None),
    (*BODY, {}, b'{"to": "\xff", "after": 1}', 400, "bad-json"),
    (*BODY, {}, b"[" * 90_000, 400, "bad-json"),
    (*BODY, {}, b'{"to": "orders", "after": 1, "value": ' + b"[" * 90_000, 400, "bad-json"),
    (*BODY, {}, b'{"to": "\\ud800", "after": 1}', 400, "bad-json"),
    (*BODY, {"Content-Type": "text/plain"}, MESSAGE, 415, "unsupported-media-type"),
    (*BODY, {"Content-Type": "application/json; charset=utf-8"}, MESSAGE, 202, None),
    (*BODY, {"Content-Type": ""}, MESSAGE, 415, "unsupported-media-type"),
    (*BODY, {"Origin": "https://example.com"}, MESSAGE, 403, "forbidden"),
    (*BODY, {"Sec-Fetch-Site": "cross-site"}, MESSAGE, 403, "forbidden"),
    (*BODY, {"Sec-Fetch-Site": "same-origin"}, MESSAGE, 202, None),
    (*BODY, {"Host": "example.com"}, MESSAGE, 421, "misdirected"),
    (*BODY, {"Host": "localhost:6067"}, MESSAGE, 202, None),
    (*BODY, {"Content-Encoding": "gzip"}, b"no gzip", 415, "unsupported-media-type"),
    (*BODY, {}, b'{"to": "orders", "after": 1, "value": "%b"}' % (b"x" * (9 << 20)), 413, "body-too-large"),
    ("PUT", "/api/v1/messages", {}, None, 405, "method-not-allowed"),
    ("GET", "/api/v1/messages", {}, None, 503, "unreachable"),
    ("GET", "/api/v1/overview", {}, None, 503, "unreachable"),
    ("GET", "/api/v1/messages/x", {}, None, 503, "unreachable"),
    ("GET", "/api/v1/messages/x/y%2Fz", {}, None, 503, "unreachable"),
    ("DELETE", "/api/v1/messages/x", {}, None, 202, "spooled"),
    ("DELETE", "/api/v1/messages/x", {"If-Match": '"5"'}, None, 202, "spooled"),
    ("DELETE", "/api/v1/messages/x", {"If-Match": "*"}, None, 202, "spooled"),
    ("DELETE", "/api/v1/messages/x", {"If-Match": "5"}, None, 412, "changed"),
    ("DELETE", "/api/v1/messages/x", {"If-Match": 'W/"5"'}, None, 412, "changed"),
    ("DELETE", "/api/v1/messages/x", {"If-Match": '"5", "6"'}, None, 400, "bad-request"),
    ("DELETE", "/api/v1/messages/" + "x" * 257, {}, None, 422, "bad-id"),
    ("PATCH", "/api/v1/messages/x", {}, {"after": "PT1H"}, 202, "spooled"),
    ("PATCH", "/api/v1/messages/x", {}, {"at": 5, "jitter": 1}, 202, "spooled"),
    ("PATCH", "/api/v1/messages/x", {"Content-Type": "application/merge-patch+json"}, {"at": 5}, 202, "spooled"),
    ("PATCH", "/api/v1/messages/x", {"Content-Type": "application/xml"}, {"at": 5}, 415, "unsupported-media-type"),
    ("PATCH", "/api/v1/messages/x", {}, {}, 422, "missing-due"),
    ("PATCH", "/api/v1/messages/x", {}, {"at": 5, "after": 5}, 422, "ambiguous-due"),
    ("PATCH", "/api/v1/messages/x", {}, {"value": 5}, 422, "malformed"),
    ("PATCH", "/api/v1/messages/x", {}, b'{"at": 5, "at": 6}', 422, "malformed"),
    ("PATCH", "/api/v1/messages/x", {}, b"", 400, "bad-json"),
    ("PATCH", "/api/v1/messages/x", {}, b'{"at": 5, "at"', 400, "bad-json"),
    (*BODY, {}, b'{"at": 5, "at"', 400, "bad-json"),
    (*BODY, {}, b'[{"at": 5, "at"]', 400, "bad-json"),
    ("POST", "/api/v1/messages/x/deliver-now", {}, None, 202, "spooled"),
    ("POST", "/api/v1/messages/x/y/deliver-now", {}, None, 202, "spooled"),
    ("POST", "/api/v1/messages/x/deliver-now", {}, {"if_due": 5}, 202, "spooled"),
    ("POST", "/api/v1/messages/x/deliver-now", {}, {"due": 5}, 422, "malformed"),
    ("POST", "/api/v1/messages/x/deliver-now", {"Origin": "https://example.com"}, None, 403, "forbidden"),
    ("GET", "/api/v1/messages/x", {"Host": "example.com"}, None, 421, "misdirected"),
    ("POST", "/api/v1/messages/x", {}, None, 405, "method-not-allowed"),
    ("PUT", "/api/v1/messages/x", {}, None, 405, "method-not-allowed"),
    ("GET", "/v2/messages", {}, None, 404, "not-found"),
    ("GET", "/problems/nothing", {}, None, 404, "not-found"),
]


async def test_every_address_answers_as_the_table_says(stage: Stage) -> None:
    for method, path, headers, body, status, kind in ROUTES:
        row = method, path, headers, str(body)[:100]
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Connection": "close", **({"Content-Type": "application/json"} if raw is not None else {}), **headers}
        data = None if raw is None else io.BytesIO(raw)
        async with stage.client.request(method, path, data=data, headers=sent) as answer:
            said = json.loads(await answer.read())
            assert answer.status == status, (row, said)
            if status >= 400 and kind is not None:
                assert (answer.content_type, said["type"], said["status"]) == (PROBLEM, f"/problems/{kind}", status), (
                    row
                )
                assert said["title"], row
                assert said["detail"], row
            elif kind is not None:
                assert said["outcome"] == kind, row


def test_every_route_of_messages_is_in_the_table() -> None:
    tried = {(method, path.replace("/x", "/{id}", 1)) for method, path, *_ in ROUTES}
    wanted = {place for place in operations() if place[1].startswith("/v1/")}
    assert wanted <= tried


WRONG_RECORDS = [
    (b'{"value": null}', [400], 200),
    (b'{"headers": 5}', [400], 200),
    (b"{}{}", [400, 400], 200),
    (b'{"key":,"key":}', [400], 200),
    (b'{"value":null,"value":' + b'{"type":' * 990 + b"1" + b"}" * 990 + b"}", [400], 200),
    (b'{}\n {"headers": [{"name": "h", "value": "?"}]}\n', [400, 400], 200),
    (b"{} [", [400, 400], 200),
    (b"[", [400], 400),
    (b"{", [400], 400),
    (b"{}{", [400, 400], 200),
    (b"", [42206], 422),
    (b"  ", [42206], 422),
    (b'{"key": {"type": "STRING", "data": "\xff"}}', [400], 200),
    (b'{"value": {"type": "JSON", "data": ' + b"[" * 40_000 + b"]" * 40_000 + b"}}", [400], 200),
]


async def test_invalid_records_are_answered_in_confluents_form(stage: Stage) -> None:
    for body, codes, status in WRONG_RECORDS:
        async with stage.client.post(RECORDS, data=body, headers={"Content-Type": "application/json"}) as answer:
            said = [json.loads(line) for line in (await answer.text()).splitlines()]
            assert (answer.status, answer.content_type) == (status, "application/json"), body[:100]
            assert [one["error_code"] for one in said] == codes, (body[:100], said)
            assert all(one["message"] for one in said)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("POST", RECORDS.replace("delay-requests", "orders"), {}, 404, 40403),
        ("POST", RECORDS, {"Content-Type": "text/plain"}, 415, 415),
        ("POST", RECORDS, {"Origin": "https://example.com"}, 403, 403),
        ("GET", RECORDS, {}, 405, 405),
        ("GET", "/kafka/v3/clusters", {}, 404, 404),
    ],
)
async def test_errors_of_the_records_route_have_confluents_form(
    stage: Stage, method: str, path: str, headers: dict[str, str], status: int, code: int
) -> None:
    async with stage.client.request(method, path, data=b"{}", headers=headers) as answer:
        said = json.loads(await answer.read())
        assert (answer.status, said["error_code"], said.keys()) == (status, code, {"error_code", "message"})


@pytest.mark.parametrize("env", [{"GATEWAY_CONFLUENT": "off"}])
async def test_without_the_setting_the_records_route_does_not_exist(stage: Stage) -> None:
    status, said = await stage.ask("POST", RECORDS, RECORD)
    assert (status, said["type"]) == (404, "/problems/not-found")


async def test_records_are_answered_before_the_request_has_ended(stage: Stage) -> None:
    record = json.dumps({**RECORD, "headers": [*RECORD["headers"], {"name": "delay-after", "value": "MQ=="}]}).encode()
    answers: list[bytes] = []

    async def body() -> Any:
        for number in range(3):
            yield record[:10]
            yield record[10:]
            while len(answers) <= number < 2:
                answers.append(await anext(lines))

    reader, writer = await _connect(stage)
    lines = _lines(reader)
    writer.write(
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        % RECORDS.encode()
    )
    async for piece in body():
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    writer.write(b"0\r\n\r\n")
    answers.append(await anext(lines))
    assert [json.loads(line)["error_code"] for line in answers] == [200, 200, 200]
    writer.close()


async def _connect(stage: Stage) -> Any:
    return await asyncio.open_connection("127.0.0.1", stage.client.port)


async def _lines(reader: Any) -> Any:
    """Give the lines of an answer that are JSON."""
    while line := await reader.readline():
        if line.startswith(b"{"):
            yield line


async def test_the_answer_to_a_batch_has_the_errors_of_each_message(stage: Stage) -> None:
    _, answer = await stage.ask("POST", "/api/v1/messages", [MESSAGE, {"to": "orders"}, {**MESSAGE, "key": 5}])
    first, second, third = answer["results"]
    assert (first["status"], first["to"]) == (202, "orders")
    assert [fault["pointer"] for fault in second["errors"]] == ["#/1/at", "#/1/after"]
    assert [fault["pointer"] for fault in third["errors"]] == ["#/2/key"]


async def test_an_answer_has_the_url_and_the_due_time_of_the_message(stage: Stage) -> None:
    message = {"to": "orders", "at": 1_924_992_000_000, "id": "a/b c"}
    async with stage.client.post("/api/v1/messages", json=message) as answer:
        said = await answer.json()
        assert (answer.headers["Location"], answer.headers["ETag"]) == ("/api/v1/messages/a%2Fb%20c", '"1924992000000"')
        assert (said["due"], said["due_ms"], said["id"]) == ("2031-01-01T00:00:00.000Z", 1_924_992_000_000, "a/b c")


async def test_commands_go_to_the_home_partition_of_their_id(stage: Stage) -> None:
    await stage.ask("PATCH", "/api/v1/messages/mine", {"at": 7}, headers={"If-Match": '"5"'})
    [order] = await stage.spooled()
    headers = dict(order.headers)
    assert (order.topic, order.key, order.value, order.id) == ("delay-requests", b"mine", None, "mine")
    assert (headers["delay-op"], headers["delay-at"], headers["delay-if-due"]) == (b"reschedule", b"7", b"5")
    assert "delay-asked-at" in headers


async def test_a_full_disk_is_a_problem(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage.spool, "_most_bytes", 0)
    async with stage.client.post("/api/v1/messages", json=MESSAGE) as answer:
        said = await answer.json()
        assert (answer.status, said["type"], "Retry-After" in answer.headers) == (503, "/problems/disk-full", True)
    async with stage.client.post("/api/v1/messages", json=[MESSAGE, MESSAGE]) as answer:
        assert (answer.status, "Retry-After" in answer.headers) == (503, True)
    async with stage.client.delete("/api/v1/messages/x") as answer:
        assert answer.status == 503


class TestNamespaces:
    TOKEN = new_token()

    @pytest.fixture
    def env(self, tmp_path: Path) -> dict[str, str]:
        file = tmp_path / "tokens.toml"
        file.write_text(
            '[team]\nnamespace = "a"\ndestinations = ["orders"]\n'
            f'tokens = [{{ sha256 = "{digest_of(self.TOKEN).hex()}" }}]\n',
            "utf-8",
        )
        file.chmod(0o600)
        return {"DELAY_WEB_USERS_FILE": str(file)}

    async def test_ids_in_requests_with_a_token_are_in_its_namespace(self, stage: Stage) -> None:
        shown = {"headers": {"Authorization": f"Bearer {self.TOKEN}"}}
        assert (await stage.ask("POST", "/api/v1/messages", {**MESSAGE, "id": "x"}, **shown))[1]["id"] == "a/x"
        for id_ in ("x", "a%2Fx", "b/x"):
            assert (await stage.ask("DELETE", f"/api/v1/messages/{id_}", **shown))[0] == 202
        record = {"headers": [{"name": "delay-op", "value": "Y2FuY2Vs"}, {"name": "delay-id", "value": "eA=="}]}
        await stage.ask("POST", RECORDS, record, **shown)
        assert sorted(one.id for one in await stage.spooled()) == ["a/b/x", "a/x", "a/x", "a/x", "a/x"]

    async def test_messages_are_read_by_their_full_ids(self, stage: Stage) -> None:
        shown = {"headers": {"Authorization": f"Bearer {self.TOKEN}"}}
        for id_ in ("x", "y", "z", "a/x", "b/x"):
            full = id_ if id_.startswith("a/") else f"a/{id_}"
            _, answer = await stage.ask("GET", f"/api/v1/messages/{id_}", **shown)
            assert f"partition {home_partition(full, (), 4)} " in answer["detail"]

    async def test_a_gateway_delivers_only_to_its_destinations(self, stage: Stage) -> None:
        shown = {"headers": {"Authorization": f"Bearer {self.TOKEN}"}}
        status, answer = await stage.ask("POST", "/api/v1/messages", {"to": "reminders", "after": 1}, **shown)
        assert (status, answer["type"]) == (403, "/problems/not-allowed")

    async def test_requests_without_a_token_get_401(self, stage: Stage) -> None:
        for method, path in operations():
            filled = path.format(id="x", cluster="c", topic="delay-requests", name="rate", partition="0", offset="1")
            async with stage.client.request(method, filled) as answer:
                is_open = path.startswith(("/health/", "/live", "/ready", "/api/v1/openapi.json", "/problems"))
                assert (answer.status == 401) is not is_open, (method, path)


@pytest.mark.parametrize(
    ("former", "moved"),
    [
        ("/v1/messages", "/api/v1/messages"),
        ("/v1/messages/-?id=a%2Fb", "/api/v1/messages/-?id=a%2Fb"),
        ("/v1/messages//example.com/%2e%2e", "/api/v1/messages//example.com/%2e%2e"),
        ("/openapi.json", "/api/v1/openapi.json"),
    ],
)
async def test_a_former_address_redirects_to_the_new_one(stage: Stage, former: str, moved: str) -> None:
    url = URL(f"http://{stage.client.host}:{stage.client.port}{former}", encoded=True)
    for method in ("GET", "POST", "DELETE", "PATCH"):
        async with stage.client.session.request(method, url, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (308, moved)


async def test_a_post_that_follows_a_redirect_keeps_its_body(stage: Stage) -> None:
    assert (await stage.ask("POST", "/v1/messages", MESSAGE))[0] == 202
