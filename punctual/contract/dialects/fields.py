"""Headers of other dialects that may occur once: finds them, and refuses repeated ones and invalid text."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from punctual.contract.request import Headers, Reason, Refusal

T = TypeVar("T")


def fields(users: Headers, prefix: str, due: str, fold: Callable[[str], str] = str) -> dict[str, str]:
    """Return the headers whose names begin with `prefix`, as text; `due` is the name of the due time's header.

    Names are compared after `fold`. Raises Refusal.
    """
    values: dict[str, str] = {}
    for name, value in users:
        known = fold(name)
        if not known.startswith(prefix):
            continue
        if known in values:
            reason = Reason.AMBIGUOUS_DUE if known == due else Reason.MALFORMED
            raise Refusal(reason, f"the header {name[:64]} is given twice. Send it once.")
        values[known] = text_of(name, value)
    return values


def text_of(name: str, value: bytes | None) -> str:
    """Return a header's value as text. Raises Refusal if it is not UTF-8."""
    try:
        return (value or b"").decode()
    except UnicodeDecodeError as error:
        raise Refusal(Reason.MALFORMED, f"the header {name[:64]} is not UTF-8.") from error


def parsed(name: str, text: str, parse: Callable[[str], T]) -> T:
    """Return a header's parsed text. Raises Refusal if `parse` raises ValueError."""
    try:
        return parse(text)
    except ValueError as error:
        raise Refusal(Reason.MALFORMED, f"{name}: {error}.") from error


def last(users: Iterable[tuple[str, bytes | None]], name: str) -> bytes | None:
    """Return the value of the last header with a name, or None."""
    last_value = None
    for one, value in users:
        if one == name:
            last_value = value
    return last_value
