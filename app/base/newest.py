"""A mapping in bounded memory."""

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Newest(OrderedDict[Key, Value]):
    """A mapping that forgets the keys that were set the longest ago, beyond a maximum."""

    def __init__(self, most: int) -> None:
        """Keep at most `most` keys."""
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
