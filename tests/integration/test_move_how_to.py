"""docs/how-to/move-to-another-cluster.md, followed from beginning to end, loses no message."""

import json
import os
import re
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.how_to import blocks
from tests.harness.kafka import now_ms
from tests.harness.waiting import LIMIT_S, PROGRAM_S, eventually
from tests.integration.conftest import Run
from tests.integration.installation import Installation
from tests.integration.test_cli import HOUR_MS, PUNCTUAL

_TICK_MS = 1_000


class Reader:
    """Runs the commands of the guide in one directory, as its reader would."""

    def __init__(self, old: Installation, new: Installation, directory: Path) -> None:
        self._new, self._directory = new, directory
        self._env = {
            "PATH": f"{Path(PUNCTUAL).parent}:{os.environ['PATH']}", "PUNCTUAL_URL": old.worker.url,
            "KAFKA_BOOTSTRAP_SERVERS": old.bootstrap, "DELAY_APP_ID": old.app_id,
        }  # fmt: skip

    def run(self, code: str) -> str:
        """Run a block and return all that it prints."""
        for given, here in (
            ("new-kafka:9092", self._new.bootstrap),
            ("--app-id delay", f"--app-id {self._new.app_id}"),
        ):
            code = code.replace(given, here)
        line = ["/bin/bash", "-eo", "pipefail", "-c", code]
        done = subprocess.run(
            line, cwd=self._directory, env=self._env, timeout=PROGRAM_S, check=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return done.stdout


@pytest.fixture
def old(run: Run) -> Iterator[Installation]:
    with run("move-old") as made:
        yield made


@pytest.fixture
def new(run: Run) -> Iterator[Installation]:
    with run("move-new") as made:
        yield made


def ids(installation: Installation) -> set[str]:
    """Return the ids that are pending."""
    with urllib.request.urlopen(f"{installation.worker.url}/api/v1/messages?limit=100", timeout=LIMIT_S) as answer:  # noqa: S310 - the worker of this test
        return {row["id"] for row in json.load(answer)["rows"]}


def test_the_guide_moves_everything_once(old: Installation, new: Installation, tmp_path: Path) -> None:
    to, began_ms = old.topic(), now_ms()
    lag, t, recurring, both, counts, cancel, left = [text for kind, text in blocks("move-to-another-cluster.md")]
    old.requests.schedule("soon", began_ms + 20_000, to, b"soon")
    old.requests.schedule("later", began_ms + 2 * HOUR_MS, to, b"later")
    old.requests.send({"delay-to": to, "delay-at": f"{began_ms + 3 * HOUR_MS}"}, None, b"named by its record")
    often = {"delay-every": f"{_TICK_MS}", "delay-misfire": "catch-up", "delay-to": to, "delay-id": "often"}
    old.requests.send({**often, "delay-at": f"{began_ms}"}, b"often", b"tick")
    yearly = {"delay-every": "P365D", "delay-to": to, "delay-id": "yearly"}
    old.requests.send({**yearly, "delay-at": f"{began_ms + 5 * HOUR_MS}"}, b"yearly", b"year")
    old.requests.flush()
    old.await_event("accepted", "soon", "later", "yearly")

    reader = Reader(old, new, tmp_path)
    eventually(
        lambda: not re.search(r" [1-9][0-9.e+]*$", reader.run(lag), re.MULTILINE), what="reading the sent messages"
    )
    eventually(lambda: {"later", "often", "yearly"} <= ids(old) and len(ids(old) - {"soon"}) == 4, what="all of them")
    assert "3 messages are exported" in reader.run(t)
    assert "2 messages are exported" in reader.run(recurring)
    reader.run(both)
    new.await_event("accepted", "later", "often", "yearly")
    eventually(lambda: len(ids(new)) >= 4, what="all of them")
    assert reader.run(counts) == "3 pending messages match\n2 pending messages match\n"
    reader.run(cancel)
    ended_ms = now_ms()
    eventually(lambda: ids(old) <= {"soon"}, what="the end of all that was moved")
    eventually(lambda: "no messages are pending" in reader.run(left), what="the end of the old installation")

    there = ids(new)
    assert there >= {"later", "often", "yearly"}
    assert len(there) == 4
    _check_deliveries(new, to, began_ms, ended_ms)


def _check_deliveries(new: Installation, to: str, began_ms: int, ended_ms: int) -> None:
    """Check that no message is lost, and that only occurrences of the minute in which both held them came twice."""
    last_ms = began_ms + (ended_ms - began_ms) // _TICK_MS * _TICK_MS + 3 * _TICK_MS
    planned = {f"often@{due_ms}" for due_ms in range(began_ms, last_ms, _TICK_MS)}

    def came() -> Counter[str]:
        return Counter(record.header("delay-id") for record in new.wait_for(to, 1))

    eventually(lambda: planned <= came().keys(), what="occurrences of both")
    found = came()
    assert found["soon"] == 1
    assert not {id_ for id_ in found if not id_.startswith(("soon", "often@"))}
    twice = {int(id_.partition("@")[2]) for id_, times in found.items() if times > 1}
    assert all(due_ms < ended_ms + _TICK_MS for due_ms in twice)
