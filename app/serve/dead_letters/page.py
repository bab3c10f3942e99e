"""What a look at the dead letters answers."""

import msgspec

from app.serve.dead_letters.dead_letter import DeadLetter


class Page(msgspec.Struct, kw_only=True):
    """Dead letters, the newest first. `next` is the cursor of the next page; null at the end.

    What was written after `looked_back_to_ms` (epoch ms) was looked at; null stands for all there is.
    """

    rows: list[DeadLetter]
    next: str | None
    looked_at: int
    looked_back_to_ms: int | None


class Count(msgspec.Struct, kw_only=True):
    """How many match; at least so many if it is not `complete`: then there was no time."""

    matching: int
    looked_at: int
    complete: bool
