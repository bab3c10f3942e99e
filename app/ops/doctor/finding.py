"""The result of one check, with what to do about it."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Level = Literal["ok", "warning", "error"]
#: The worst first.
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "ok")


class Finding(msgspec.Struct, frozen=True):
    """The result of a `check`; `subject` is the topic, broker, worker or path.

    The sentence names the problem, its place, and what to do next.
    """

    level: Level
    check: str
    subject: str
    sentence: str


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with the worst first, otherwise in their order."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def worst(findings: Iterable[Finding]) -> Level:
    """Return the worst level, ok without findings."""
    return min((finding.level for finding in findings), key=LEVELS.index, default="ok")
