"""The guard ends its command when its owner ends, however the owner ends."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from app.dev.broker.process import GuardedProcess
from tests.app.dev.broker.processes import gone
from tests.harness.waiting import eventually

SLEEP = ["sleep", "1000"]


def guarded(command: list[str], log: Path, remove: Path | None = None) -> GuardedProcess:
    with log.open("ab") as output:
        return GuardedProcess(command, output, remove)


def test_the_output_of_a_command_goes_to_the_log_and_its_exit_is_noticed(tmp_path: Path) -> None:
    process = guarded(["sh", "-c", "echo said; exit 3"], tmp_path / "log")
    eventually(lambda: process.exit_code() == 3)
    assert (tmp_path / "log").read_text("utf-8") == "said\n"
    process.stop()


def test_a_missing_command_is_an_error(tmp_path: Path) -> None:
    process = guarded(["/nowhere/command"], tmp_path / "log")
    with pytest.raises(ProcessLookupError, match="before its command"):
        _ = process.pid
    assert "/nowhere/command" in (tmp_path / "log").read_text("utf-8")
    process.stop()


def test_stop_keeps_the_directory_and_abandon_removes_it(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    first = guarded(SLEEP, tmp_path / "log", directory)
    first.stop()
    assert directory.exists()
    second = guarded(SLEEP, tmp_path / "log", directory)
    pid = second.pid
    second.abandon()
    assert gone(pid)
    assert not directory.exists()


def test_a_killed_command_is_reported_and_leaves_the_directory_to_its_owner(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    process = guarded(SLEEP, tmp_path / "log", directory)
    os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: process.exit_code() == 128 + signal.SIGKILL)
    assert directory.exists()
    process.stop()


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.dev.broker.process.STOP_GRACE_S", 0.2)
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True)"
    log = tmp_path / "log"
    process = guarded([sys.executable, "-c", f"{stubborn}; time.sleep(1000)"], log)
    eventually(lambda: "deaf" in log.read_text("utf-8"))
    pid = process.pid
    process.stop()
    assert gone(pid)


OWNER = """
    import sys, time
    from pathlib import Path
    from app.dev.broker.process import GuardedProcess
    directory = Path(sys.argv[1])
    directory.mkdir()
    process = GuardedProcess(["sleep", "1000"], (directory / "log").open("ab"), directory)
    print(process.pid, flush=True)
    time.sleep(1000)
"""


def test_a_killed_owner_leaves_neither_the_command_nor_its_directory(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), directory], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert not gone(pid)
        owner.kill()
    eventually(lambda: gone(pid))
    eventually(lambda: not directory.exists())
