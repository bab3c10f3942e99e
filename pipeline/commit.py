"""The metadata of a commit: the offsets up to which each topic has been read, and the notes of the jobs."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.errors import LakeMismatch

if TYPE_CHECKING:
    from pipeline.kafka import Offsets

_FORMAT = 2


@dataclass(frozen=True)
class Commit:
    """One commit of the pipeline.

    Attributes:
        number: 1 for the first commit; 0 if there is none yet.
        kind: what the table is: `ledger` or `cold tier`.
        source: the installation that it comes from (`source_of`).
        at_ms: when the topics had been read up to `positions`.
        format: the version of this format.
        run: a random text that tells this commit from another one with its number.
        positions: the offsets up to which each topic has been read.
        notes: JSON values that the jobs keep for their next run.
    """

    number: int
    kind: str
    source: str
    at_ms: int = 0
    format: int = _FORMAT
    run: str = ""
    positions: "dict[str, Offsets]" = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str | None) -> "Commit | None":
        """Return the commit in a commit's metadata; None for the metadata of others."""
        try:
            commit = cls(**json.loads(text or ""))
        except (ValueError, TypeError):
            return None
        positions = {
            topic: {int(number): at for number, at in offsets.items()} for topic, offsets in commit.positions.items()
        }
        return dataclasses.replace(commit, positions=positions)

    def require(self, kind: str, source: str, root: str) -> None:
        """Raise LakeMismatch unless this is a commit to the table of `kind` of the installation `source`."""
        if (self.kind, self.source, self.format) != (kind, source, _FORMAT):
            raise LakeMismatch(
                f"{root} holds a {self.kind} of {self.source} (format {self.format}), not a {kind} of {source}. "
                f"Use another directory, or the DELAY_APP_ID and KAFKA_BOOTSTRAP_SERVERS of its installation."
            )
