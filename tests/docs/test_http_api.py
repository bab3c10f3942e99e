"""docs/reference/http-api.md: its examples work on a worker, and the answers have the members that it shows."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.serve.access.permissions import NEEDS
from tests.docs.api_examples import ADDRESS, Example, differences, encoded, examples
from tests.harness.kafka import create_topic
from tests.harness.waiting import eventually
from tests.integration.installation import Installation, running

#: The topics of the examples are those of an installation with the default name.
_TOPICS = ("requests", "forwards", "controls")
_SHARED = ("/api/v1/", "/health/", "/metrics", "/problems/")


@pytest.fixture(scope="module")
def installation(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running(bootstrap, tmp_path_factory.mktemp("http-api"), "http-api", balanced=False) as made:
        create_topic(bootstrap, f"{made.app_id}-reminders")
        yield made


def test_each_route_has_an_example() -> None:
    shown = [" ".join(example.route) for example in examples()]
    routes = [route for route in NEEDS if route.partition(" ")[2].startswith(_SHARED) and "/local/" not in route]
    patterns = {route: re.compile(re.sub(r"\{\w+\}", "[^/]+", route)) for route in routes}

    assert len(routes) > 30
    assert not [route for route, pattern in patterns.items() if not any(map(pattern.fullmatch, shown))]


def test_the_examples_work_as_shown(installation: Installation, tmp_path: Path) -> None:
    app_id = installation.app_id
    to = f"{app_id}-reminders"
    names = {ADDRESS: installation.worker.url, "reminders": to, encoded("reminders"): encoded(to)}
    names["remindres"] = f"{app_id}-remindres"
    names |= {f"delay-{topic}": f"{app_id}-{topic}" for topic in _TOPICS}
    for example in examples():
        ours = example.replaced(names)
        answer = _checked(ours, tmp_path)
        if example.kind == "json":
            names |= _given(example.answer, answer)


def _checked(example: Example, home: Path) -> Any:
    """Run an example, and return its answer; repeat a read until it returns the answer that the page shows."""
    last: list[Any] = []

    def fits() -> bool:
        status, text = example.run(home)
        answer = json.loads(text) if example.kind == "json" else text
        wrong = [f"status {status}"] if status >= 500 or not text else []
        if example.kind == "json":
            wrong += differences(example.answer, answer)
        last[:] = [wrong, answer]
        return not last[0]

    if example.route[0] == "GET":
        try:
            eventually(fits, what="the answer that the page shows")
        except AssertionError as error:
            error.add_note(f"{example.command}\n{last}")
            raise
    else:
        assert fits(), f"{example.command}\n{last}"
    return last[1]


def _given(shown: Any, answer: Any) -> dict[str, str]:
    """Return the names of an answer that later examples use, by those on the page."""
    if "job" in shown:
        return {shown["job"]["job_id"]: answer["job"]["job_id"]}
    if "looked_back_to_ms" in shown:
        rows = shown["rows"][0], answer["rows"][0]
        on_page, ours = (f"dead-letters/{row['partition']}-{row['offset']}" for row in rows)
        return {on_page: ours}
    return {}
