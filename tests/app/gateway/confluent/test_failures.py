"""Whatever a handler raises is answered with a problem, or with Confluent's errors where those are expected."""

import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from app.gateway.confluent import failures
from app.serve.web import problem
from app.serve.web.problem import Problem

FOUND = web.HTTPFound("/elsewhere")
RAISED: list[tuple[Exception, int, str]] = [
    (ZeroDivisionError("secret"), 500, "internal"),
    (Problem("rate", "too many", headers={"Retry-After": "7"}), 429, "rate"),
    (web.HTTPRequestEntityTooLarge(max_size=1, actual_size=2), 413, "body-too-large"),
    (web.HTTPGone(), 410, "bad-request"),
]


async def asked(error: Exception, path: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    async def handler(_request: web.Request) -> web.Response:
        raise error

    web_app = web.Application()
    web_app.middlewares.append(problem.middleware(failures.answer, lambda _: True, "See there.", "The gateway"))
    web_app.router.add_get("/{path:.*}", handler)
    async with TestClient(TestServer(web_app)) as client, client.get(path, allow_redirects=False) as answer:
        said = json.loads(await answer.read()) if answer.status >= 400 else {}
        return answer.status, said, dict(answer.headers)


@pytest.mark.parametrize(("error", "status", "kind"), RAISED)
async def test_exceptions_are_answered_as_problems(error: Exception, status: int, kind: str) -> None:
    answered, said, headers = await asked(error, "/v1/x")
    assert (said["type"], headers["Content-Type"]) == (f"/problems/{kind}", "application/problem+json")
    assert answered == said["status"]
    assert kind == "bad-request" or answered == status
    assert "secret" not in str(said)
    assert (kind == "rate") is ("Retry-After" in headers)


async def test_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    await asked(ZeroDivisionError("why"), "/v1/x")
    [record] = [one for one in caplog.records if one.name == "app.serve.web.problem"]
    assert record.exc_info is not None
    assert record.getMessage() == "GET /v1/x has failed"


async def test_errors_below_kafka_have_confluents_form() -> None:
    status, said, headers = await asked(ZeroDivisionError("secret"), "/kafka/v3/x")
    assert (status, said["error_code"], headers["Content-Type"]) == (500, 500, "application/json")
    assert "secret" not in said["message"]
    _, said, headers = await asked(Problem("rate", "too many", headers={"Retry-After": "7"}), "/kafka/v3/x")
    assert (said["error_code"], headers["Retry-After"]) == (429, "7")


async def test_redirects_are_not_problems() -> None:
    status, _, headers = await asked(FOUND, "/v1/x")
    assert (status, headers["Location"]) == (302, "/elsewhere")
