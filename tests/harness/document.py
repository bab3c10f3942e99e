"""A document's code blocks, run as a reader would run them: literally, one after the other, in a fresh clone."""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT

_STOP_S, _POLL_S = 60.0, 0.1
#: How a shell ends whose command was interrupted.
_STOPPED = (0, -signal.SIGINT, 128 + signal.SIGINT)
#: Prefixes of variables that a reader's shell would not have: our settings, and those of make and virtualenvs.
_ASIDE = ("DELAY_", "KAFKA_", "HOOK_", "MAKE", "MFLAGS", "PYTHON", "VIRTUAL_ENV", "PYTEST_", "DATADIR", "PORT", "HOST")
#: Commands that run until they are stopped, and the output that shows that they work.
_FOREVER = {
    "make run": r"  arrived +\S+",
    "make kafka": r"Kafka serves on",
    "faust -A app worker": r"serving 16 of 16 partitions",
    "mirror.py": r"^copying ",
}


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Have the ports that all documents use, until the block ends: programs of a user take turns."""
    with Path(tempfile.gettempdir(), f"punctual-test-documents-{os.getuid()}").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Block(NamedTuple):
    """A block of code; a program has the name of the file that the text before it tells to save it in."""

    language: str
    code: str
    file: str


def blocks(document: Path) -> list[Block]:
    """Return the blocks of a document that a reader runs."""
    found, before = [], ""
    for text, language, code in re.findall(
        r"(.*?)^```(\w*)\n(.*?)^```$", document.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        before += text
        if language in ("sh", "python"):
            [*_, file] = ["program.py", *re.findall(r"`(\w+\.py)`", text)]
            found.append(Block(language, code, file))
    return found


def clone(directory: Path) -> None:
    """Clone this repository with its uncommitted changes to tracked files."""
    git = ["git", "-c", "safe.directory=*"]
    subprocess.run([*git, "clone", "--quiet", str(ROOT), str(directory)], check=True)
    changed = subprocess.run(
        [*git, "-C", str(ROOT), "diff", "--binary", "HEAD"], check=True, capture_output=True
    ).stdout
    if changed:
        subprocess.run([*git, "-C", str(directory), "apply", "-"], input=changed, check=True)


class Reader:
    r"""Runs blocks in a clone; what runs forever goes on, and is stopped when the `with` block ends.

    `make run` has a Kafka and a worker of its own: it is stopped before the next command that runs forever. A command
    that is given again while it runs has been ended by Ctrl-\ before.
    """

    def __init__(self, directory: Path, **env: str) -> None:
        """Begin in `directory`; `env` is added to the environment of a reader's shell."""
        self._directory, self._running = directory, dict[str, subprocess.Popen[bytes]]()
        self._demo: subprocess.Popen[bytes] | None = None
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(_ASIDE)} | env

    def __enter__(self) -> Self:
        # On SIGTERM, as from timeout(1), end the commands too: they run in sessions of their own.
        self._before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before)
        try:
            self._stop_demo(check=kind is None)
        finally:
            for process in reversed(self._running.values()):
                _interrupt(process)

    def run(self, block: Block) -> str:
        """Run a block and return its output; a command that runs forever goes on in the background once it is ready."""
        code = block.code
        if block.language == "python":
            (self._directory / block.file).write_text(code, "utf-8")
            code = f".venv/bin/python {block.file}"
        ready = next((said for command, said in _FOREVER.items() if command in code and "--once" not in code), None)
        log = self._directory.with_name(f"{self._directory.name}-{len(list(self._directory.parent.iterdir()))}.log")
        if ready is not None:
            self._stop_demo()
            self._quit(self._running.pop(code, None))
        process = self._start(code, log)
        if ready is None:
            return self._finished(process, code, log)
        if "make run" in code:
            self._demo = process
        else:
            self._running[code] = process
        self._await(process, code, log, ready)
        return log.read_text("utf-8")

    def _stop_demo(self, *, check: bool = True) -> None:
        if self._demo is not None:
            process, self._demo = self._demo, None
            _interrupt(process)
            assert not check or process.returncode in _STOPPED, f"`make run` ended with {process.returncode}"

    @staticmethod
    def _quit(process: "subprocess.Popen[bytes] | None") -> None:
        if process is not None:
            os.killpg(process.pid, signal.SIGQUIT)
            process.wait(_STOP_S)

    def _start(self, code: str, log: Path) -> "subprocess.Popen[bytes]":
        # The process gets a session of its own, as in a terminal, so that Ctrl-C interrupts the whole group.
        with log.open("wb") as out:
            return subprocess.Popen(
                [shutil.which("bash") or "sh", "-e", "-c", code],
                cwd=self._directory,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _finished(self, process: "subprocess.Popen[bytes]", code: str, log: Path) -> str:
        try:
            process.wait(PROGRAM_S)
        except subprocess.TimeoutExpired:
            _interrupt(process)
            raise AssertionError(f"{code}\nis not done after {PROGRAM_S:.0f} s:\n{_tail(log)}") from None
        assert process.returncode == 0, f"{code}\nended with {process.returncode}:\n{_tail(log)}"
        return log.read_text("utf-8")

    @staticmethod
    def _await(process: "subprocess.Popen[bytes]", code: str, log: Path, ready: str) -> None:
        began = time.monotonic()
        while not re.search(ready, log.read_text(encoding="utf-8", errors="replace"), re.MULTILINE):
            assert process.poll() is None, f"{code}\nended with {process.returncode}:\n{_tail(log)}"
            assert time.monotonic() - began < PROGRAM_S, f"{code}\ndid not say {ready!r}:\n{_tail(log)}"
            time.sleep(_POLL_S)


def _interrupt(process: "subprocess.Popen[bytes]") -> None:
    """Press Ctrl-C, wait until the shell's processes are gone, and kill the rest after _STOP_S seconds."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
        deadline = time.monotonic() + _STOP_S
        while True:
            process.poll()
            os.killpg(process.pid, 0 if time.monotonic() < deadline else signal.SIGKILL)
            time.sleep(_POLL_S)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:])
