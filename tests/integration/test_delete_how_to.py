"""docs/how-to/delete-customer-data.md: its commands delete messages, and its table names each topic."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.how_to import blocks
from tests.harness.kafka import now_ms
from tests.harness.waiting import PROGRAM_S, eventually
from tests.harness.worker import ROOT
from tests.integration.conftest import Run
from tests.integration.installation import Installation, alter_topic
from tests.integration.test_cli import HOUR_MS, PUNCTUAL

PAGE = "delete-customer-data.md"
SHELL = [text for kind, text in blocks(PAGE) if kind == "sh" and "pipeline" not in text]
VALUE = "something about the customer"


@pytest.fixture
def installation(run: Run) -> Iterator[Installation]:
    with run("delete") as made:
        yield made


def follow(code: str, installation: Installation) -> str:
    """Run a block of the page and return all that it prints."""
    env = {
        "PATH": f"{Path(PUNCTUAL).parent}:{os.environ['PATH']}",
        "PUNCTUAL_URL": installation.worker.url,
        "KAFKA_BOOTSTRAP_SERVERS": installation.bootstrap,
        "DELAY_APP_ID": installation.app_id,
    }
    code = code.replace("delay-delays-changelog", f"{installation.app_id}-delays-changelog").replace(
        "delay-$topic", f"{installation.app_id}-$topic"
    )
    line = ["/bin/bash", "-c", code.replace("secret-text", f"'{VALUE}'")]
    done = subprocess.run(line, env=env, check=False, timeout=PROGRAM_S, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.skipif(not all(map(shutil.which, ("kcat", "jq"))), reason="kcat or jq is not installed")
def test_its_commands_cancel_and_find_the_remaining_data(installation: Installation) -> None:
    to, due_ms = installation.topic(), now_ms() + HOUR_MS
    for number in range(3):
        request = {"delay-to": to, "delay-at": f"{due_ms}", "delay-id": f"o{number}"}
        installation.requests.send(request, b"customer-4", VALUE.encode())
    installation.requests.send({"delay-to": to, "delay-at": f"{due_ms}", "delay-id": "other"}, b"customer-5", b"kept")
    installation.requests.send({"delay-to": f"{to}-missing-topic", "delay-at": "x"}, b"customer-4", VALUE.encode())
    installation.requests.flush()
    installation.await_listed("o0", "o1", "o2", "other")
    cancel, refused, changelog, _lag, left = SHELL

    said = follow(cancel, installation)
    assert said.count("cancelled") == 3
    assert said.endswith("no pending messages match\n")
    refused = refused.replace("--to reminders ", "")
    eventually(lambda: '"partition"' in follow(refused, installation), what="the dead letter")
    places = dict(re.findall(r"^([a-z-]+): (\d+)$", follow(left, installation), re.MULTILINE))
    assert {name for name, count in places.items() if count != "0"} >= {"requests", "dead-letters"}
    assert (places["events"], places["jobs"]) == ("0", "0")

    lag = {"max_compaction_lag_ms": "1000", "segment_ms": "1000", "min_cleanable_dirty_ratio": "0.01"}
    alter_topic(installation.bootstrap, f"{installation.app_id}-delays-changelog", **lag)

    def compacted() -> bool:
        for number in range(8):  # a later write closes a segment
            request = {"delay-to": to, "delay-at": f"{due_ms}", "delay-id": f"more{number}"}
            installation.requests.send(request, None, b"more")
        installation.requests.flush()
        return follow(changelog, installation) == "0\n"

    eventually(compacted, 90, "a changelog without the secret")


def test_its_table_names_each_topic_of_an_installation() -> None:
    page = (ROOT / "docs/how-to" / PAGE).read_text("utf-8")
    table = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    internal = ("requests", "forwards", "delays-changelog", "events", "dead-letters", "progress", "controls", "cold")
    for name in (*internal, "audit", "jobs", "receipts"):
        assert f"`<id>-{name}`" in table
