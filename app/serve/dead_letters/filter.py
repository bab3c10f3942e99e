"""A filter for dead letters, and its form as query parameters in the URLs of the console and the API."""

from collections.abc import Mapping
from typing import ClassVar, Final

from app.serve.dead_letters.dead_letter import DeadLetter
from app.serve.search.filter import QueryFilter

_LATEST_MS: Final = (1 << 63) - 1


class DeadLetterFilter(QueryFilter, frozen=True, kw_only=True, omit_defaults=True):
    """Matches dead letters that have all fields that are set, by the time of writing.

    `sent_again` is `yes` or `no`. A dead letter without an ID has its source in place of it.
    """

    names = ("reason", "to", "id_prefix", "source", "written_from", "written_to", "sent_again", "namespace")
    period, latest_ms = "written", _LATEST_MS
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"sent_again": ("yes", "no")}

    reason: str = ""
    written_from_ms: int = 0
    written_to_ms: int = _LATEST_MS
    sent_again: str = ""

    @property
    def bounded(self) -> bool:
        """Whether the filter excludes dead letters that are too new."""
        return self.written_to_ms != _LATEST_MS

    def fits(self, one: DeadLetter) -> bool:
        """Return whether a dead letter matches the filter."""
        return (
            self.written_from_ms <= one.at_ms <= self.written_to_ms
            and self.reason in ("", one.reason)
            and self.goes_to(one.to or "")
            and self.is_from(one.id or one.source, one.source)
            and (not self.sent_again or (self.sent_again == "yes") == (one.sent_again is not None))
        )
