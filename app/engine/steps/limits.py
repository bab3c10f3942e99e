"""What the cluster's topics allow a partition."""

from typing import Protocol


class Limits(Protocol):
    """Sizes in bytes, and whether there is a cold tier."""

    #: Of a message that is held, encoded.
    row: int
    #: Of a request: what is parked comes back as one.
    request: int
    #: Of a dead letter.
    dead_letter: int
    #: Whether the cold topic is there: messages may be parked, even if no more are.
    cold: bool
