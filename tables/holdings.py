"""The number of pending messages of each sender for each destination."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from operator import itemgetter

from tables import places
from tables.counts import display_name
from tables.entry import Entry

#: Separates the sender from the destination in the name of a number, because neither can contain it.
_BETWEEN = "\0"
_crc = itemgetter(slice(16, None))


class Holdings:
    """Counts messages by sender and destination; the number of both has the name `<sender>NUL<destination>`."""

    def __init__(self) -> None:
        """Begin with no numbers."""
        self.known: dict[str, dict[str, int]] = {}
        self._added: dict[tuple[str, str], int] = {}

    def read(self, stored: Mapping[str, bytes]) -> None:
        """Take over the numbers that a database holds, by name; other names are ignored."""
        for name, value in stored.items():
            sender, between, destination = name.partition(_BETWEEN)
            if between:
                self.known.setdefault(sender, {})[destination] = int.from_bytes(value, "big")

    def names(self) -> Iterator[str]:
        """Return the name of each number."""
        for sender, destinations in self.known.items():
            yield from (f"{sender}{_BETWEEN}{destination}" for destination in destinations)

    def number(self, name: str) -> int:
        """Return the number that has a name, 0 if there is none."""
        sender, _, destination = name.partition(_BETWEEN)
        return self.known.get(sender, {}).get(destination, 0)

    def add(self, sender: str, to: str, number: int) -> None:
        """Count `number` more (or fewer) messages; failure callbacks have no destination, and are not counted."""
        if to:
            self._added[sender, to] = self._added.get((sender, to), 0) + number

    def add_rows(self, rows: Mapping[bytes, bytes | Entry], inputs: Mapping[int, str], times: int) -> None:
        """Add `times` (1 or -1) the counts of plain rows; `inputs` maps the checksums in the rows' keys to topics."""
        by_crc: dict[bytes, dict[bytes, bytes | Entry]] = defaultdict(dict)
        for key, row in rows.items():
            by_crc[_crc(key)][key] = row
        for crc, part in by_crc.items():
            sender = inputs.get(int.from_bytes(crc, "big"), "")
            _, counts = places.of_rows(part, b"")
            for to, _, number in counts:
                self.add(sender, to, number * times)

    def settle(self) -> set[str]:
        """Add up the changes; return the names of the numbers that have changed."""
        changed = set[str]()
        for (sender, to), number in self._added.items():
            destination, of = display_name(to), self.known.setdefault(sender, {})
            of[destination] = of.get(destination, 0) + number
            if of[destination] <= 0:
                del of[destination]
            if not of:
                del self.known[sender]
            changed.add(f"{sender}{_BETWEEN}{destination}")
        self._added.clear()
        return changed
