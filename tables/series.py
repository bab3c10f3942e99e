"""What a row keeps of a recurring message (docs/reference/recurring-messages.md)."""

import msgspec


class Series(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A series whose next occurrence waits in a row.

    `rule` says when it goes on, as whoever reads requests has encoded it. `number` counts occurrences from 1;
    `planned_ms` (epoch ms) is when the one that waits was to be by the rule: the next one is planned after that.
    """

    rule: bytes
    planned_ms: int
    number: int = 1
