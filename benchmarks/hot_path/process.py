"""The process that measures a tree, as its owner sees it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from benchmarks.errors import ProcessFailed
from benchmarks.hot_path.tree import ROOT, Tree

_END_S = 30.0
#: glibc returns memory at random times, and maps it again later: without this, a tenth of the store's cost.
_STEADY = {
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "1000000000",
    "MALLOC_TOP_PAD_": "67108864",
}

Cost = dict[str, float]
"""Microseconds of CPU per message, by the name of the stage."""


class Measured:
    """A process with one tree's code; it ends when the `with` block does, or this process."""

    def __init__(self, tree: Tree, directory: Path, messages: int, seed: int) -> None:
        """Start it; its stores are under `directory`, its hashes begin with `seed`."""
        self._tree = tree
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._data = tempfile.mkdtemp(dir=directory)
        path = os.pathsep.join(map(str, dict.fromkeys((tree.path, ROOT))))  # the tree's own packages come first
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            # -P: the current directory, which has packages of the same names, is not on the path.
            [
                sys.executable,
                "-P",
                "-m",
                "benchmarks.hot_path.child",
                str(tree.path),
                self._data,
                str(messages),
            ],
            env={**os.environ, **_STEADY, "PYTHONPATH": path, "PYTHONHASHSEED": str(seed)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C interrupts the parent, which then ends it
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self._process.communicate(timeout=_END_S)  # it ends with its input
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._log.close()

    def measure(self) -> Cost:
        """Measure once.

        Raises ProcessFailed if the process ends with an error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = b""
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            pass
        if not line:
            self._process.wait(_END_S)
            self._log.seek(0)
            output = self._log.read().decode(errors="replace")
            raise ProcessFailed(f"measurement of {self._tree.path}", self._process.returncode, output)
        return msgspec.json.decode(line, type=Cost)
