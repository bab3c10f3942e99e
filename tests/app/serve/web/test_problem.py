"""Problems agree with the reference, and each reason of dead letters has a type."""

import re
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from app.serve.actions.writing import NotSent, Unconfirmed
from app.serve.web.problem import Fault, Problem, meaning, pointer, problems, response
from app.serve.web.problem_types import PATH, TYPES
from punctual.contract.request import Reason

PAGE = Path(__file__).parents[4] / "docs/reference/problems.md"


def test_every_type_has_a_heading_in_the_reference_with_its_status() -> None:
    documented = re.findall(r"^### ([\w-]+)\n\n(\d{3})\. ", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(documented) == sorted((str(kind.name), str(kind.status)) for kind in TYPES.values())


def test_every_reason_of_a_dead_letter_is_a_type() -> None:
    assert {reason.value for reason in Reason} <= TYPES.keys()


def test_pointers_begin_where_the_message_is_in_its_batch() -> None:
    problem = Problem("malformed", "no", [Fault(pointer("headers", 0, "a/b~c"), "no")])
    assert problem.body("/3")["errors"] == [Fault("#/3/headers/0/a~1b~0c", "no")]


async def test_the_uri_of_a_type_returns_its_meaning() -> None:
    web_app = web.Application(middlewares=[problems])
    web_app.add_routes([web.get(PATH + "{name}", meaning)])
    async with TestClient(TestServer(web_app)) as client:
        for kind in TYPES.values():
            answer = await client.get(kind.type)
            meaning_of = await answer.json()
            assert meaning_of.pop("retry_after_s", None) == kind.retry_after_s
            assert meaning_of == {"type": kind.type, "title": kind.title, "status": kind.status}
        assert (await client.get(PATH + "none")).status == 404


def test_problems_have_the_retry_after_of_their_type_or_their_own() -> None:
    assert {kind.name for kind in TYPES.values() if kind.retry_after_s} == {
        *("quota", "in-progress", "disk-full", "busy", "not-ready", "kafka-unavailable", "keys-unread", "unreachable")
    }
    for name, kind in TYPES.items():
        wait_s = None if kind.retry_after_s is None else str(kind.retry_after_s)
        assert response(Problem(name, "no")).headers.get("Retry-After") == wait_s
    assert response(Problem("busy", "no", headers={"Retry-After": "30"})).headers["Retry-After"] == "30"


def test_actions_that_may_have_been_done_do_not_ask_to_be_repeated() -> None:
    assert "Retry-After" in response(NotSent("nothing was sent")).headers
    assert "Retry-After" not in response(Unconfirmed("it may be stored")).headers


def test_problems_quote_little_of_a_large_body() -> None:
    long = "x" * (8 << 20)

    body = response(Problem("malformed", long, [Fault(pointer(long), long)])).body
    assert isinstance(body, bytes)
    assert len(body) < 4_000
