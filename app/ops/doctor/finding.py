"""One thing that was looked at: how it stands, and what to do about it."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Level = Literal["ok", "warning", "error"]
#: The worst first.
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "ok")


class Finding(msgspec.Struct, frozen=True):
    """How one thing stands: `check` is what was looked at, `subject` the topic, broker, worker or path.

    The sentence says what is wrong, where, and what to do next.
    """

    level: Level
    check: str
    subject: str
    sentence: str


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with the worst first, else as they came."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def worst(findings: Iterable[Finding]) -> Level:
    """Return the worst level there is; ok if there is none."""
    return min((finding.level for finding in findings), key=LEVELS.index, default="ok")
