"""The result of a run as one line of JSON, for programs (`--json`)."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Summary:
    """Counts, offsets and error of one run.

    `nothing` is true if the run was empty; `sending` is false as long as a command has sent no record, and None if the
    command does not say.
    """

    nothing: bool = False
    sending: bool | None = None
    counts: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    error: str | None = None
    _began: float = field(default_factory=time.monotonic, repr=False)

    def count(self, **counts: int) -> None:
        """Add counts by name."""
        self.counts |= counts

    def read_to(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Add the offsets up to which topics have been read."""
        self.offsets |= {topic: dict(there) for topic, there in offsets.items()}

    def line(self, command: str, code: int) -> str:
        """Return the summary of a command and its exit `code` as one line of JSON."""
        seconds = round(time.monotonic() - self._began, 3)
        result: dict[str, Any] = {"command": command, "exit_code": code, "nothing": self.nothing, "seconds": seconds}
        result |= {"counts": self.counts, "offsets": self.offsets}
        return json.dumps(result if self.error is None else result | {"error": self.error}, ensure_ascii=False)


@contextmanager
def stdout_for_data(*, only: bool) -> Iterator[None]:
    """Redirect stdout to stderr for a block if stdout is `only` for data."""
    if not only:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield
