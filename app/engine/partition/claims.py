"""The rows of a partition whose sends are outstanding, and rows whose arrival is not yet recorded."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tables import Entry
from tables.entry import decode


class ArrivedRow(NamedTuple):
    """A row that has arrived at its destination, although its last owner died before it recorded that.

    The row's key, its message's source, and the topic, partition, offset and timestamp (epoch ms) of the copy.
    """

    row: bytes
    source: str
    topic: str
    partition: int
    offset: int
    at_ms: int


class Claims(dict[bytes, Entry]):
    """Entries by the keys of their rows; a plain row stays undecoded until a caller reads it.

    Rows that the last owner may have sent are claimed by their keys alone, because thousands of large ones would need
    too much memory.
    """

    def __getitem__(self, key: bytes) -> Entry:
        """Return the entry of a row. Raises KeyError if it is not claimed."""
        claim: Any = super().__getitem__(key)
        if type(claim) is bytes:
            claim = self[key] = decode(claim)
        elif callable(claim):
            claim = claim(key)
        entry: Entry = claim
        return entry

    def claim_keys(self, rows: Iterable[bytes], read: Callable[[bytes], Entry | None]) -> None:
        """Claim rows by their keys alone; `read` returns the entry of a row."""
        claimed: Any = dict.fromkeys(rows, read)
        self.update(claimed)

    def read(self, rows: Iterable[bytes]) -> None:
        """Read and keep the entries of those `rows` that are claimed by their keys alone."""
        self.update({row: self[row] for row in rows if row in self})

    def has_command(self, key: bytes) -> bool:
        """Return whether a command was written on a row since it was claimed; rows without a read entry have none."""
        claim: Any = super().__getitem__(key)
        return not callable(claim) and bool(self[key].commands)

    def get(self, key: bytes, default: Any = None) -> Any:
        """Return the entry of a row, `default` if it is not claimed."""
        return self[key] if key in self else default  # noqa: SIM401 - this is that get()

    def items(self) -> Any:
        """Return keys and decoded entries."""
        self._decode()
        return super().items()

    def values(self) -> Any:
        """Return decoded entries."""
        self._decode()
        return super().values()

    def _decode(self) -> None:
        for key in self:
            self[key] = self[key]
