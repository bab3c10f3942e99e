"""The program of docs/how-to/recurring.md runs, and delivers the messages that the page shows."""

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.how_to import blocks, run_program
from tests.harness.kafka import create_topic
from tests.harness.waiting import PROGRAM_S
from tests.integration.installation import Installation, running

_BLOCKS = blocks("recurring.md")

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (a Debian package)")


@pytest.fixture
def installation(bootstrap: str, tmp_path: Path) -> Iterator[Installation]:
    with running(bootstrap, tmp_path, "recurring-how-to") as made:
        yield made


def test_the_program_and_the_record_recur_as_the_page_says(installation: Installation, tmp_path: Path) -> None:
    [reading] = [code for _, code in _BLOCKS if code.startswith("kcat")]
    [writing] = [code for _, code in _BLOCKS if code.startswith("echo")]
    to = create_topic(installation.bootstrap, f"{installation.app_id}-reports")
    run_program(_BLOCKS, installation, tmp_path, reports=to)
    found = shell(reading.replace("127.0.0.1:9092", installation.bootstrap).replace("-t reports", f"-t {to}"))

    dues = [int(re.findall(r"delay-due=(\d+)", line)[0]) for line in found.splitlines()]
    assert [later - due for due, later in itertools.pairwise(dues)] == [2_000, 2_000]
    assert found.count("delay-id=heartbeat@") == 3
    installation.await_event("cancelled", "nightly")
    shell(
        writing.replace("127.0.0.1:9092", installation.bootstrap)
        .replace("delay-requests", f"{installation.app_id}-requests")
        .replace("delay-to=reports", f"delay-to={to}")
    )
    installation.await_event("delivered", "digest")


def shell(command: str) -> str:
    run = subprocess.run(command, shell=True, check=True, timeout=PROGRAM_S, capture_output=True, text=True)  # noqa: S602
    return run.stdout
