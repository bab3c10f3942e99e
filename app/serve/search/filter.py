"""What somebody looks for among pending messages, as the addresses of the console and the API write it."""

from collections.abc import Iterable, Mapping
from typing import Final, Self

import msgspec

from punctual.contract.namespaces import Namespaces
from punctual.contract.times import parse_time
from tables import Entry, keys

#: The names that a query may have, in the order in which they are written.
NAMES: Final = ("to", "due_from", "due_to", "key", "header", "source", "id_prefix", "namespace", "recurring")
_YES: Final = "yes"
_LONGEST: Final = 1_024
#: What is compared with what messages have, where blanks count: `team 1 ` is the beginning of fewer ids than `team 1`.
_COMPARED: Final = frozenset(("to", "key", "header", "source", "id_prefix"))
#: In an address, what no namespace is called: those of no namespace that there is, and so nothing.
_NONE: Final = "-"


class FilterError(ValueError):
    """A filter that cannot be understood: a sentence that says what is wrong and what is right."""


class Filter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which messages: those that fit all that is set. Due times are epoch milliseconds, both included.

    `to` is a topic, or a URL or its beginning; `header` is a name, or `name:value`; `source` is a topic, or what a
    request's `topic-partition-offset` begins with; `within` has the namespaces that ids may be of, None for all ids;
    `recurring` is yes for series alone.
    """

    to: str = ""
    due_from_ms: int = 0
    due_to_ms: int = keys.MAX_DUE_MS
    key: str = ""
    header: str = ""
    source: str = ""
    id_prefix: str = ""
    within: Namespaces | None = None
    recurring: str = ""

    @classmethod
    def from_query(cls, query: Mapping[str, str], namespaces: Namespaces | None = None) -> Self:
        """Read a filter from the parameters of an address; those of other names are not looked at.

        `namespaces` are those that there are. Raises FilterError.
        """
        given = given_in(query, NAMES)
        since, until = given.pop("due_from"), given.pop("due_to")
        if given["recurring"] not in ("", _YES):
            raise FilterError(f"recurring={given['recurring'][:64]!r} must be {_YES}, or be left out")
        return cls(
            within=part_of(namespaces, given.pop("namespace")),
            due_from_ms=moment("due_from", since, keys.MAX_DUE_MS) if since else 0,
            due_to_ms=moment("due_to", until, keys.MAX_DUE_MS) if until else keys.MAX_DUE_MS,
            **given,
        )

    def query(self) -> dict[str, str]:
        """Return the parameters that stand for it, without those that are not set."""
        found = {name: getattr(self, name) for name in NAMES if not name.startswith(("due", "namespace"))}
        if self.due_from_ms:
            found["due_from"] = str(self.due_from_ms)
        if self.due_to_ms != keys.MAX_DUE_MS:
            found["due_to"] = str(self.due_to_ms)
        if self.within is not None:
            found["namespace"] = written(self.within)
        return {name: found[name] for name in NAMES if found.get(name)}

    @property
    def needles(self) -> list[bytes]:
        """Bytes that every row has that fits: looking for them costs a tenth of decoding the row."""
        name, _, value = self.header.partition(":")
        return [text.encode() for text in (self.to, self.key, name, value, self.source, self.id_prefix) if text]

    @property
    def by_destination_alone(self) -> bool:
        """Whether nothing but a destination is asked for: how many there are is counted all along."""
        return self == Filter(to=self.to)

    def fits(self, row: bytes, entry: Entry) -> bool:
        """Return whether the message in a row is one that is looked for."""
        return (
            self.due_from_ms <= keys.due_of(row) <= self.due_to_ms
            and entry.url is None  # a callback that waits bears the id of a message that has ended
            and not entry.replaced
            and self._goes_there(entry)
            and entry.id.startswith(self.id_prefix)
            and (self.within is None or self.within.of_id(entry.id) != "")
            and (not self.source or entry.source == self.source or entry.source.startswith(f"{self.source}-"))
            and (not self.key or entry.key == self.key.encode())
            and (not self.header or self._has_header(entry))
            and (not self.recurring or entry.series is not None)
        )

    def _goes_there(self, entry: Entry) -> bool:
        return not self.to or entry.to == self.to or ("://" in self.to and entry.to.startswith(self.to))

    def _has_header(self, entry: Entry) -> bool:
        name, given, value = self.header.partition(":")
        return any(found == name and (not given or raw == value.encode()) for found, raw in entry.headers)


def part_of(namespaces: Namespaces | None, text: str) -> Namespaces | None:
    """Return the namespaces that a parameter names, separated by commas; None if it is empty.

    Raises FilterError if there is no such namespace.
    """
    if not text:
        return None
    there, wanted = namespaces or Namespaces(), set(text.split(",")) - {_NONE}
    if strange := sorted(wanted - there.names):
        known = f"they are {', '.join(sorted(there.names))}" if there else "DELAY_NAMESPACES has none"
        raise FilterError(f"there is no namespace {strange[0][:64]!r}; {known}")
    return there.part(wanted)


def written(within: Namespaces) -> str:
    """Return namespaces as a parameter names them."""
    return ",".join(sorted(within.names)) or _NONE


def given_in(query: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return what an address says of these parameters, nothing of those that it has not, or that are blank.

    Raises FilterError.
    """
    stripped = {name: query.get(name, "").strip() for name in names}
    given = {name: query[name] if text and name in _COMPARED else text for name, text in stripped.items()}
    for name, text in given.items():
        if len(text) > _LONGEST:
            raise FilterError(f"{name} has {len(text)} characters. The maximum of a filter is {_LONGEST}")
    return given


def moment(name: str, text: str, latest_ms: int) -> int:
    """Return the time that a parameter says (epoch ms), at most `latest_ms`. Raises FilterError."""
    try:
        return min(parse_time(text), latest_ms)
    except ValueError as error:
        raise FilterError(f"{name}={text!r} is not a time: {error}") from error
