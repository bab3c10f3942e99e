"""Why a number of partitions is not changed.

RepartitionError            each has a sentence: what is wrong, and what to do
├── NotReady                something must be done first; nothing has changed
├── TooManyOrigins          there are no numbers left for where rows come from
└── CheckFailed             the new changelog does not hold what the old one does
"""

from collections.abc import Sequence

from app.base.errors import PunctualError


class RepartitionError(PunctualError):
    """The number of partitions is not changed."""


class NotReady(RepartitionError):
    """Something must be done before partitions can be changed."""


class TooManyOrigins(RepartitionError):
    """There are no numbers left for where rows come from."""

    def __init__(self, needed: int, limit: int) -> None:
        """Say how many would be needed, and how many there are."""
        super().__init__(
            f"rows come from {needed:,} partitions of topics (of this and earlier repartitions), but the maximum is "
            f"{limit - 1:,}. Export the pending messages and import them into a new installation instead "
            "(docs/how-to/backup.md)."
        )


class CheckFailed(RepartitionError):
    """The new changelog does not hold what the old one does."""

    def __init__(self, differences: Sequence[str], changelog: str) -> None:
        """Name the differences, and the `changelog` that was written."""
        super().__init__(
            f"{changelog} differs from the old changelog: {'; '.join(differences)}. The old changelog is unchanged. "
            "Run the command again with --abandon, and start the workers with their previous settings. If it "
            "happens again, please report it."
        )
