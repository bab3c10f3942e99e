"""A result: figures with their circumstances, as they are saved and compared."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from benchmarks.errors import ResultUnusable
from benchmarks.figures import Figures
from benchmarks.kernel import Kernel
from benchmarks.machine import Machine
from benchmarks.sizes import Sizes

DIRECTORY = Path(__file__).parent / "results"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """`figures` are medians over `runs`."""

    machine: Machine
    sizes: Sizes
    settings: Mapping[str, str]
    """The worker's settings, without paths and names."""
    kernel: Kernel | None = "off"
    """Whether the workers used the native extension; None if no worker was measured."""
    figures: Figures
    runs: list[Figures]

    @property
    def name(self) -> str:
        """The name of its file: the date and the measured groups."""
        measured = list(dict.fromkeys(group.split()[0] for group in self.figures if group != "calibration"))
        parts = [
            self.sizes.name,
            *(measured if len(measured) < 6 else []),
            *(["kernel"] if self.kernel == "on" else []),
        ]
        return f"{self.machine.date}-{'-'.join(parts)}"

    def save(self, directory: Path) -> Path:
        """Write it to a file of its own, and return its path; never over another one."""
        directory.mkdir(parents=True, exist_ok=True)
        text = msgspec.json.format(msgspec.json.encode(self)) + b"\n"
        number = 1
        while True:
            path = directory / (f"{self.name}.json" if number == 1 else f"{self.name}-{number}.json")
            try:
                with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
                    file.write(text)
            except FileExistsError:
                number += 1
            else:
                return path

    @classmethod
    def load(cls, path: Path) -> "Result":
        """Read a saved result. Raises ResultUnusable."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError) as error:
            raise ResultUnusable(path, error) from error
