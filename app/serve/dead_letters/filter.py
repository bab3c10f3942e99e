"""A filter for dead letters, and its form as query parameters in the URLs of the console and the API."""

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from app.serve.dead_letters.dead_letter import DeadLetter
from app.serve.search.filter import FilterError, given_in, moment, part_of, written
from punctual.contract.namespaces import Namespaces

#: The names of query parameters, in the order in which they are written.
NAMES: Final = ("reason", "to", "id_prefix", "source", "written_from", "written_to", "sent_again", "namespace")
_LATEST_MS: Final = (1 << 63) - 1
_YES_OR_NO: Final = ("", "yes", "no")


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Matches dead letters that have all fields that are set. Times are epoch milliseconds, both included.

    `to` is a topic, or a URL or its beginning; `source` is a topic, or the beginning of a request's
    `topic-partition-offset`; `sent_again` is `yes` or `no`; `within` has the namespaces of IDs, or of sources if no ID.
    """

    reason: str = ""
    to: str = ""
    id_prefix: str = ""
    source: str = ""
    written_from_ms: int = 0
    written_to_ms: int = _LATEST_MS
    sent_again: str = ""
    within: Namespaces | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, str], namespaces: Namespaces | None = None) -> Self:
        """Read a filter from query parameters; parameters with other names are ignored.

        `namespaces` are all namespaces of the installation. Raises FilterError.
        """
        given = given_in(query, NAMES)
        if given["sent_again"] not in _YES_OR_NO:
            raise FilterError(f"sent_again={given['sent_again']!r} must be yes or no")
        since, until = given.pop("written_from"), given.pop("written_to")
        return cls(
            within=part_of(namespaces, given.pop("namespace")),
            written_from_ms=moment("written_from", since, _LATEST_MS) if since else 0,
            written_to_ms=moment("written_to", until, _LATEST_MS) if until else _LATEST_MS,
            **given,
        )

    def query(self) -> dict[str, str]:
        """Return the query parameters of this filter, without unset ones."""
        found = {name: getattr(self, name) for name in NAMES if not name.startswith(("written", "namespace"))}
        if self.written_from_ms:
            found["written_from"] = str(self.written_from_ms)
        if self.bounded:
            found["written_to"] = str(self.written_to_ms)
        if self.within is not None:
            found["namespace"] = written(self.within)
        return {name: found[name] for name in NAMES if found.get(name)}

    @property
    def bounded(self) -> bool:
        """Whether the filter excludes dead letters that are too new."""
        return self.written_to_ms != _LATEST_MS

    def fits(self, one: DeadLetter) -> bool:
        """Return whether a dead letter matches the filter."""
        return (
            self.written_from_ms <= one.at_ms <= self.written_to_ms
            and self.reason in ("", one.reason)
            and self._goes_there(one.to or "")
            and (one.id or one.source).startswith(self.id_prefix)
            and (self.within is None or self.within.of_id(one.id or one.source) != "")
            and (not self.source or one.source == self.source or one.source.startswith(f"{self.source}-"))
            and (not self.sent_again or (self.sent_again == "yes") == (one.sent_again is not None))
        )

    def _goes_there(self, to: str) -> bool:
        return not self.to or to == self.to or ("://" in self.to and to.startswith(self.to))
