"""Errors of a repartition.

RepartitionError            each has a sentence with the problem and what to do
├── NotReady                a precondition is not met; no partition has changed
├── TooManyOrigins          there are too few numbers for the rows' origins
└── CheckFailed             the new changelog differs from the old one
"""

from collections.abc import Sequence

from app.base.errors import PunctualError


class RepartitionError(PunctualError):
    """The number of partitions is not changed."""


class NotReady(RepartitionError):
    """A precondition of a repartition is not met."""


class TooManyOrigins(RepartitionError):
    """There are too few numbers for the origins of rows."""

    def __init__(self, needed: int, limit: int) -> None:
        """Name the `needed` numbers and the `limit`."""
        super().__init__(
            f"rows come from {needed:,} partitions of topics (of this and earlier repartitions), but the maximum is "
            f"{limit - 1:,}. Export the pending messages and import them into a new installation instead "
            "(docs/how-to/backup.md)."
        )


class CheckFailed(RepartitionError):
    """The new changelog differs from the old one."""

    def __init__(self, differences: Sequence[str], changelog: str) -> None:
        """Name the differences, and the new `changelog`."""
        super().__init__(
            f"{changelog} differs from the old changelog: {'; '.join(differences)}. The old changelog is unchanged. "
            "Run the command again with --abandon, and start the workers with their previous settings. If it "
            "happens again, please report it."
        )
