"""The programs of docs/examples work, and README points at each."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from app.dev.demo import example
from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT, Worker

#: What each says, line by line; `*` is anything.
SAYS = {
    "payment_reminder": """
order-1 is placed
order-2 is placed
order-3 is placed
order-2 is paid, and its reminder cancelled
reminder: {"order":"order-1","text":"please pay"}
reminder: {"order":"order-3","text":"please pay"}
""",
    "order_timeout": """
A-1 is expired
A-3 is expired
A-2 is confirmed
""",
    "webhook_backoff": """
try 1: 503, try again later
try 2: 503, try again later
try 3: taken, {"order":42}
""",
    "nightly_report": """
planned for every night at 02:00
made now, as nightly-report@*: {"report":"sales"}
no more reports
""",
    "snooze": """
in two seconds will do
call the dentist!
snoozed for an hour
no, now
call the dentist!
""",
}


def said(name: str, env: dict[str, str]) -> str:
    """Run a program and return its output."""
    command = [sys.executable, str(example.EXAMPLES / f"{name}.py")]
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )
    assert done.returncode == 0, f"{name}: {done.stderr}"
    return done.stdout


def test_all_are_known_and_told_of() -> None:
    names = example.names()
    assert set(names) == {*SAYS, "debounce_search_index"}

    readme = (ROOT / "README.md").read_text("utf-8")
    assert re.findall(r"\(docs/examples/(\w+)\.py\)", readme) == sorted(names, key=readme.index)
    for name in names:
        assert f"make run NAME={name}\n" in (example.EXAMPLES / f"{name}.py").read_text("utf-8")


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["topics"], ["snooze", "snooze"]])
def test_a_run_without_a_name_lists_the_names(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert example.main(arguments) == 2
    assert "make run NAME=debounce_search_index or nightly_report or " in capsys.readouterr().err


@pytest.mark.kafka
@pytest.mark.slow
def test_the_examples_have_the_described_effects(bootstrap: str, tmp_path: Path) -> None:
    app_id = f"examples-{uuid4().hex[:8]}"
    names, env = example.names(), {"KAFKA_BOOTSTRAP_SERVERS": bootstrap, "DELAY_APP_ID": app_id}
    with Worker(bootstrap, app_id, tmp_path / "worker", env={"DELAY_DESTINATIONS": "*", **example.ALLOWED}) as worker:
        worker.start().wait_ready()
        with ThreadPoolExecutor() as pool:
            results = dict(zip(names, pool.map(lambda name: said(name, env), names), strict=True))

    for name, lines in SAYS.items():  # sorted: messages that are due at the same moment may come in any order
        expected, written = (
            "".join(sorted(text.splitlines(keepends=True))) for text in (lines.lstrip(), results[name])
        )
        assert re.fullmatch(re.escape(expected).replace(r"\*", ".*"), written), results[name]
    indexed = re.findall(r"^indexed with edit (\d+)$", results["debounce_search_index"], re.MULTILINE)
    assert indexed == sorted(indexed, key=int)
    assert indexed[-1] == "20"
    assert 2 <= len(indexed) <= 6, "in five seconds of editing: after three, and when it rests"


@pytest.mark.kafka
@pytest.mark.slow
def test_one_command_runs_one(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", bootstrap)
    monkeypatch.setenv("DELAY_APP_ID", f"example-{uuid4().hex[:8]}")

    assert example.main(["snooze"]) == 0
    assert capfd.readouterr().out == SAYS["snooze"].lstrip()
