"""What a run has done, for a program that goes on from there: `--json`."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Summary:
    """Counts and offsets of one run; `nothing` says that there was nothing to do."""

    nothing: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    error: str | None = None
    _began: float = field(default_factory=time.monotonic, repr=False)

    def count(self, **counts: int) -> None:
        """Note how many of something there were."""
        self.counts |= counts

    def read_to(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Note up to which offsets topics have been read."""
        self.offsets |= {topic: dict(there) for topic, there in offsets.items()}

    def line(self, command: str, code: int) -> str:
        """Return it as one line of JSON."""
        seconds = round(time.monotonic() - self._began, 3)
        said: dict[str, Any] = {"command": command, "exit_code": code, "nothing": self.nothing, "seconds": seconds}
        said |= {"counts": self.counts, "offsets": self.offsets}
        return json.dumps(said if self.error is None else said | {"error": self.error}, ensure_ascii=False)


@contextmanager
def stdout_for_data(*, only: bool) -> Iterator[None]:
    """Have what is printed for people on stderr for a block, if stdout is `only` for data."""
    if not only:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield
