"""The result of a run as one line of JSON, for programs (`--json`)."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Summary:
    """Counts, offsets and error of one run of `command`.

    `nothing` is true if the run was empty; `sending` is false as long as a command has sent no record, and None if the
    command does not say. `until_ms` is the time (epoch ms) before which all messages are promoted; `metrics` is the
    file of `write_metrics`.
    """

    command: str = ""
    metrics: str | None = None
    until_ms: int | None = None
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
        self.offsets |= {topic: dict(partition_offsets) for topic, partition_offsets in offsets.items()}

    def write_metrics(self) -> None:
        """Write the metrics of a run that has not failed, in Prometheus' text format, for node_exporter."""
        if self.metrics is None:
            return
        now, label = time.time(), f'command="{self.command}"'
        values = {
            f"last_success_timestamp_seconds{{{label}}}": now,
            f"duration_seconds{{{label}}}": time.monotonic() - self._began,
            **{f'rows{{{label},kind="{name}"}}': count for name, count in self.counts.items()},
            **{
                f'offset{{{label},topic="{topic}",partition="{number}"}}': offset
                for topic, partition_offsets in self.offsets.items()
                for number, offset in partition_offsets.items()
            },
        }
        if self.until_ms is not None:
            values[f"promoted_until_timestamp_seconds{{{label}}}"] = self.until_ms / 1_000
        new = Path(f"{self.metrics}.new")
        new.write_text("".join(f"punctual_pipeline_{name} {value:.17g}\n" for name, value in values.items()), "utf-8")
        new.replace(self.metrics)
        self._began = time.monotonic()

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
