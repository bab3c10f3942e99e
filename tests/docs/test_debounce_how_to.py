"""The program of docs/how-to/debounce.md runs, and delivers the messages that the page shows."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.how_to import blocks, run_program
from tests.harness.kafka import create_topic
from tests.harness.waiting import PROGRAM_S
from tests.integration.installation import Installation, running

_BLOCKS = blocks("debounce.md")

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (a Debian package)")


@pytest.fixture
def installation(bootstrap: str, tmp_path: Path) -> Iterator[Installation]:
    with running(bootstrap, tmp_path, "debounce-how-to") as made:
        yield made


def test_the_program_delivers_twice_first_by_its_bound(installation: Installation, tmp_path: Path) -> None:
    [reading] = [code for _, code in _BLOCKS if code.startswith("kcat")]
    to = create_topic(installation.bootstrap, f"{installation.app_id}-searches")
    run_program(_BLOCKS, installation, tmp_path, searches=to)
    command = reading.replace("127.0.0.1:9092", installation.bootstrap).replace("searches", to).split()
    found = subprocess.run(command, check=True, timeout=PROGRAM_S, capture_output=True, text=True).stdout.splitlines()

    assert len(found) == 2
    assert found[0] in ("version 2", "version 3")
    assert found[1] == "version 4"
