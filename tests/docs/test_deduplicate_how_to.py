"""The consumer of docs/how-to/deduplicate.md processes a delivery once, and skips its copy."""

import shutil
import sqlite3
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.docs.how_to import blocks
from tests.harness.kafka import create_topic
from tests.harness.program import Program
from tests.harness.waiting import PROGRAM_S, eventually

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (a Debian package)")


def test_a_copy_is_skipped(bootstrap: str, tmp_path: Path) -> None:
    _, (_, program), (_, copies) = blocks("deduplicate.md")
    topic = create_topic(bootstrap, f"reminders-{uuid.uuid4().hex[:8]}")
    names = {"127.0.0.1:9092": bootstrap, '"reminders"': f'"{topic}"', "-t reminders": f"-t {topic}"}
    for name, instead in {**names, '"mails.db"': f'"{tmp_path}/mails.db"', '"mails"': f'"{topic}"'}.items():
        program, copies = program.replace(name, instead), copies.replace(name, instead)
    (tmp_path / "mails.py").write_text(program, "utf-8")
    subprocess.run(["bash", "-ec", copies], check=True, timeout=PROGRAM_S)  # noqa: S607 - as a reader does

    with Program(tmp_path / "log", str(tmp_path / "mails.py")) as running:
        eventually(lambda: len(outcomes(running.log)) == 2, what="a line for each record")
        assert outcomes(running.log) == ["processed reminder-42", "skipped a copy of reminder-42"]

    with sqlite3.connect(tmp_path / "mails.db") as shop:
        assert shop.execute("SELECT * FROM mails").fetchall() == [("customer-7", "please pay")]


def outcomes(log: str) -> list[str]:
    """Return the program's own lines: aiokafka writes others, of a broker that is still starting for example."""
    return [line for line in log.splitlines() if line.startswith(("processed", "skipped"))]
