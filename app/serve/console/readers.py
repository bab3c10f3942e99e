"""What is kept of readers and what they asked for: of those that asked last."""

from typing import Final, TypeVar

_KEPT: Final = 100
_Value = TypeVar("_Value")


class Readers(dict[object, _Value]):
    """Has a value for each of the last hundred."""

    def keep(self, who: object, value: _Value) -> None:
        """Keep a reader's value in place of the one before, and forget whoever has not asked for longest."""
        self.pop(who, None)
        self[who] = value
        if len(self) > _KEPT:
            del self[next(iter(self))]
