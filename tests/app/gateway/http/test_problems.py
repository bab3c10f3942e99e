"""Problems are what the reference says, and a type each for all that dead letters have as reasons."""

import re
from pathlib import Path

from app.gateway.http.problem import Fault, Problem, pointer
from app.gateway.http.problem_types import TYPES
from punctual.contract.request import Reason
from tests.app.gateway.conftest import Stage

PAGE = Path(__file__).parents[4] / "docs/reference/problems.md"


def test_every_type_is_a_heading_of_the_reference_with_its_status() -> None:
    documented = re.findall(r"^### ([\w-]+)\n\n(\d{3})\. ", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(documented) == sorted((str(kind.name), str(kind.status)) for kind in TYPES.values())


def test_every_reason_of_a_dead_letter_is_a_type() -> None:
    assert {reason.value for reason in Reason} <= TYPES.keys()


def test_pointers_begin_where_the_message_is_in_its_batch() -> None:
    problem = Problem("malformed", "no", [Fault(pointer("headers", 0, "a/b~c"), "no")])
    assert problem.answered("/3").errors == [Fault("#/3/headers/0/a~1b~0c", "no")]


async def test_a_type_is_where_its_uri_says(stage: Stage) -> None:
    for kind in TYPES.values():
        assert await stage.ask("GET", kind.uri) == (
            200,
            {"type": kind.uri, "title": kind.title, "status": kind.status},
        )
    assert (await stage.ask("GET", "/problems/none"))[0] == 404
