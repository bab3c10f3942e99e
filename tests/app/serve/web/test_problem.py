"""Problems agree with the reference, and each reason of dead letters has a type."""

import re
from pathlib import Path

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from app.serve.web.problem import Fault, Problem, meaning, pointer, problems
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
            assert await answer.json() == msgspec.to_builtins(kind)
        assert (await client.get(PATH + "none")).status == 404
