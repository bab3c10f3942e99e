"""What the cluster's topics allow a partition."""

from typing import Protocol


class Limits(Protocol):
    """Sizes in bytes."""

    #: Of a message that is held, encoded.
    row: int
    #: Of a dead letter.
    letter: int
