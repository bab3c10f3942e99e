"""The rows of a partition whose sends are outstanding."""

from typing import Any

from tables import Entry
from tables.entry import decode


class Claims(dict[bytes, Entry]):
    """Entries by the keys of their rows; a usual one stays undecoded, as the kernel reads it, until somebody asks."""

    def __getitem__(self, key: bytes) -> Entry:
        """Return the entry of a row. Raises KeyError if it is not claimed."""
        found: Any = super().__getitem__(key)
        if type(found) is bytes:
            found = self[key] = decode(found)
        entry: Entry = found
        return entry

    def get(self, key: bytes, default: Any = None) -> Any:
        """Return the entry of a row, `default` if it is not claimed."""
        return self[key] if key in self else default  # noqa: SIM401 - it is what this does

    def items(self) -> Any:
        """Return keys and entries, all of them decoded."""
        self._decode()
        return super().items()

    def values(self) -> Any:
        """Return entries, all of them decoded."""
        self._decode()
        return super().values()

    def _decode(self) -> None:
        for key in self:
            self[key]
