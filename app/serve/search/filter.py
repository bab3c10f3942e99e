"""A filter for pending messages, and its form as query parameters in the URLs of the console and the API."""

from collections.abc import Iterable, Mapping
from typing import Final, Self

import msgspec

from punctual.contract.namespaces import Namespaces
from punctual.contract.times import parse_time
from tables import Entry, keys

#: The names of query parameters, in the order in which they are written.
NAMES: Final = ("to", "due_from", "due_to", "key", "header", "source", "id_prefix", "namespace", "recurring")
_YES: Final = "yes"
_LONGEST: Final = 1_024
#: Filters compared with text of messages, where blanks count: `team 1 ` is the prefix of fewer IDs than `team 1`.
_COMPARED: Final = frozenset(("to", "key", "header", "source", "id_prefix"))
#: A parameter value that is no namespace's name: it stands for an empty set of namespaces, which matches no message.
_NONE: Final = "-"


class FilterError(ValueError):
    """A filter is invalid; the error message names the fault and how to fix it."""


class Filter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Matches messages that have all fields that are set. Due times are epoch milliseconds, both included.

    `to` is a topic, or a URL or its beginning; `header` is a name, or `name:value`; `source` is a topic, or the
    beginning of a request's `topic-partition-offset`; `within` has the namespaces of the IDs, None for all IDs;
    `recurring` is yes for recurring messages only.
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
        """Read a filter from query parameters; parameters with other names are ignored.

        `namespaces` are all namespaces of the installation. Raises FilterError.
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
        """Return the query parameters of this filter, without unset ones."""
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
        """Bytes that every matching row contains: searching for them costs a tenth of decoding the row."""
        name, _, value = self.header.partition(":")
        return [text.encode() for text in (self.to, self.key, name, value, self.source, self.id_prefix) if text]

    @property
    def by_destination_alone(self) -> bool:
        """Whether the filter has only a destination, so that the matches are always counted."""
        return self == Filter(to=self.to)

    def fits(self, row: bytes, entry: Entry) -> bool:
        """Return whether the message in a row matches the filter."""
        return (
            self.due_from_ms <= keys.due_of(row) <= self.due_to_ms
            and entry.url is None  # a pending callback has the ID of a message that has ended
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
    """Return the namespaces in a parameter, separated by commas; None if it is empty.

    Raises FilterError if a namespace does not exist.
    """
    if not text:
        return None
    there, wanted = namespaces or Namespaces(), set(text.split(",")) - {_NONE}
    if strange := sorted(wanted - there.names):
        known = f"they are {', '.join(sorted(there.names))}" if there else "DELAY_NAMESPACES has none"
        raise FilterError(f"there is no namespace {strange[0][:64]!r}; {known}")
    return there.part(wanted)


def written(within: Namespaces) -> str:
    """Return namespaces as the value of a parameter."""
    return ",".join(sorted(within.names)) or _NONE


def given_in(query: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the values of the query parameters with these names, "" for missing and blank parameters.

    Raises FilterError if a value is too long.
    """
    stripped = {name: query.get(name, "").strip() for name in names}
    given = {name: query[name] if text and name in _COMPARED else text for name, text in stripped.items()}
    for name, text in given.items():
        if len(text) > _LONGEST:
            raise FilterError(f"{name} has {len(text)} characters. The maximum of a filter is {_LONGEST}")
    return given


def moment(name: str, text: str, latest_ms: int) -> int:
    """Return the time in a parameter (epoch ms), at most `latest_ms`. Raises FilterError."""
    try:
        return min(parse_time(text), latest_ms)
    except ValueError as error:
        raise FilterError(f"{name}={text!r} is not a time: {error}") from error
