"""Translates cron expressions of NATS into Punctual's (nats-server, server/cron.go).

Both have the same fields, and differ in two points. In NATS a step makes a wildcard a list: `*/2` in the day of month
and a weekday mean either, where Punctual requires both. And its weekdays are 0 to 6, so that steps count to 6.
"""

from typing import Final

from punctual.contract.cron import LETTERS

#: The day of month and the day of week, by their place from the end: the whole range, and its last number.
_DAYS: Final = {-3: ("1-31", "31"), -1: ("0-6", "6")}


def native(text: str) -> str:
    """Return Punctual's expression for the expression `text` of NATS; any other text stays unchanged."""
    fields = text.split()
    if text.startswith("@") or len(text) > LETTERS:
        return text
    return " ".join(_field(field, _DAYS.get(place - len(fields))) for place, field in enumerate(fields))


def _field(field: str, days: tuple[str, str] | None) -> str:
    terms = [term.replace("?", "*", 1) if term.startswith("?") else term for term in field.split(",")]
    if days is None:
        return ",".join(terms)
    if any(_is_all(term) for term in terms):
        return "*"
    return ",".join(dict.fromkeys(_term(term, *days) for term in terms))


def _is_all(term: str) -> bool:
    """Return whether NATS takes a term for a wildcard: without a step, or with a step of 1."""
    start, slash, step = term.partition("/")
    return start == "*" and (not slash or (step.isdigit() and step.lstrip("0") == "1"))


def _term(term: str, whole: str, last: str) -> str:
    start, slash, step = term.partition("/")
    if not slash or "-" in start:
        return term
    return f"{whole}/{step}" if start == "*" else f"{start}-{last}/{step}"
