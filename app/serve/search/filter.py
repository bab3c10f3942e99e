"""Filters with a form as query parameters in the URLs of the console and the API, and the one for pending messages."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self

import msgspec

from punctual.contract.namespaces import Namespaces
from punctual.contract.times import parse_time
from tables import Entry, keys

_LONGEST: Final = 1_024
#: Filters compared with text of messages, where blanks count: `team 1 ` is the prefix of fewer IDs than `team 1`.
_COMPARED: Final = frozenset(("to", "key", "header", "source", "id_prefix"))
#: A parameter value that is no namespace's name: it stands for an empty set of namespaces, which matches no message.
_NONE: Final = "-"


class FilterError(ValueError):
    """A filter is invalid; the error message names the fault and how to fix it."""


class QueryFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A filter with a form as query parameters.

    `to` is a topic, or a URL or its beginning; `source` is a topic, or the beginning of a request's
    `topic-partition-offset`; `within` has the namespaces of the IDs, None for all IDs. Each kind has a period of time:
    the fields `…_from_ms` and `…_to_ms`, both included (epoch ms), with the parameters `…_from` and `…_to`.
    """

    #: The names of the parameters, in the order in which they are written.
    names: ClassVar[tuple[str, ...]]
    #: The prefix of the fields of the period, and its latest end.
    period: ClassVar[str]
    latest_ms: ClassVar[int]
    #: The values that a parameter may have, for parameters with few.
    choices: ClassVar[Mapping[str, tuple[str, ...]]]

    to: str = ""
    source: str = ""
    id_prefix: str = ""
    within: Namespaces | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, str], namespaces: Namespaces | None = None) -> Self:
        """Read a filter from query parameters; parameters with other names are ignored.

        `namespaces` are all namespaces of the installation. Raises FilterError.
        """
        fields: dict[str, Any] = given_in(query, cls.names)
        for name, allowed in cls.choices.items():
            if fields[name] not in ("", *allowed):
                values = " or ".join(allowed)
                raise FilterError(f"{name}={fields[name][:64]!r} must be {values}, or be left out")
        for end in ("from", "to"):
            name = f"{cls.period}_{end}"
            if text := fields.pop(name):
                fields[f"{name}_ms"] = moment(name, text, cls.latest_ms)
        return cls(within=part_of(namespaces, fields.pop("namespace")), **fields)

    def query(self) -> dict[str, str]:
        """Return the query parameters of this filter, without unset ones."""
        since_ms, until_ms = (getattr(self, f"{self.period}_{end}_ms") for end in ("from", "to"))
        period = {
            f"{self.period}_from": str(since_ms) if since_ms else "",
            f"{self.period}_to": str(until_ms) if until_ms != self.latest_ms else "",
            "namespace": "" if self.within is None else written(self.within),
        }
        texts = {name: period[name] if name in period else getattr(self, name) for name in self.names}
        return {name: text for name, text in texts.items() if text}

    def is_from(self, id_: str, source: str) -> bool:
        """Return whether a message with this ID and source matches the fields about these."""
        return (
            id_.startswith(self.id_prefix)
            and (self.within is None or self.within.of_id(id_) != "")
            and (not self.source or source == self.source or source.startswith(f"{self.source}-"))
        )

    def goes_to(self, to: str) -> bool:
        """Return whether a destination matches."""
        return not self.to or to == self.to or ("://" in self.to and to.startswith(self.to))


class Filter(QueryFilter, frozen=True, kw_only=True, omit_defaults=True):
    """Matches pending messages that have all fields that are set, by due time.

    `header` is a name, or `name:value`; `recurring` is yes for recurring messages only.
    """

    names = ("to", "due_from", "due_to", "key", "header", "source", "id_prefix", "namespace", "recurring")
    period, latest_ms = "due", keys.MAX_DUE_MS
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"recurring": ("yes",)}

    due_from_ms: int = 0
    due_to_ms: int = keys.MAX_DUE_MS
    key: str = ""
    header: str = ""
    recurring: str = ""

    @property
    def needles(self) -> list[bytes]:
        """Bytes that every matching row contains: searching for them costs a tenth of decoding the row."""
        name, _, value = self.header.partition(":")
        return [text.encode() for text in (self.to, self.key, name, value, self.source, self.id_prefix) if text]

    def fits(self, row: bytes, entry: Entry) -> bool:
        """Return whether the message in a row matches the filter."""
        return (
            self.due_from_ms <= keys.due_of(row) <= self.due_to_ms
            and entry.url is None  # a pending callback has the ID of a message that has ended
            and not entry.replaced
            and self.goes_to(entry.to)
            and self.is_from(entry.id, entry.source)
            and (not self.key or entry.key == self.key.encode())
            and (not self.header or self._has_header(entry))
            and (not self.recurring or entry.series is not None)
        )

    def _has_header(self, entry: Entry) -> bool:
        name, colon, value = self.header.partition(":")
        return any(other == name and (not colon or raw == value.encode()) for other, raw in entry.headers)


def part_of(namespaces: Namespaces | None, text: str) -> Namespaces | None:
    """Return the namespaces in a parameter, separated by commas; None if it is empty. Raises FilterError."""
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
    values = {name: query[name] if text and name in _COMPARED else text for name, text in stripped.items()}
    for name, text in values.items():
        if len(text) > _LONGEST:
            raise FilterError(f"{name} has {len(text)} characters. The maximum of a filter is {_LONGEST}")
    return values


def moment(name: str, text: str, latest_ms: int) -> int:
    """Return the time in a parameter (epoch ms), at most `latest_ms`. Raises FilterError."""
    try:
        return min(parse_time(text), latest_ms)
    except ValueError as error:
        raise FilterError(f"{name}={text!r} is not a time: {error}") from error
