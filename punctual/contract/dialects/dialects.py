"""The dialects by name: functions that read the requests of an input topic, and write records about them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final

from punctual.contract import headers as names
from punctual.contract import native
from punctual.contract.dialects import airtel, countdown, deliver_after, etf1, karafka, nats, publish_after, spring
from punctual.contract.message import Message
from punctual.contract.record import Record
from punctual.contract.request import TOPIC_NAME, Headers, Reason, Request
from punctual.contract.times import parse_duration
from punctual.contract.words import Words


@dataclass(frozen=True, slots=True)
class Dialect:
    """A format of requests for delayed messages, and of records about them. Each module documents its functions.

    Rows do not have the dialect of their requests. So headers that a dialect adds to a delivery are among the user's
    headers of the decoded request, and records about rows are native for all dialects.
    """

    name: str
    words: Words
    #: Returns the request in a record; raises Refusal.
    decode: Callable[..., Request]
    #: Returns the headers of a delivery with this due time.
    delivery: Callable[[Message, int], Headers] = native.delivery
    #: Returns the headers of a request to the requests topic for the same message, with this due time.
    again: Callable[[Message, int], Headers] = native.again
    #: Returns the headers of a refused record that its dead letter keeps.
    kept: Callable[[Record], Headers] = native.kept
    #: Returns the URL to notify of a refused record, if any, and the user's own headers.
    callback: Callable[[Record], tuple[str, Headers]] = native.callback
    #: Returns the body of a failure callback for an accepted message with this due time; None is the default body.
    returned: Callable[[Message, int], bytes | None] | None = None
    #: Returns a dead letter's own headers, from reason, sentence and source.
    failure: Callable[[Reason, str, str], Headers] = native.failure
    #: The options after its name in DELAY_INPUTS, in this order: keywords of `decode`.
    options: tuple[str, ...] = ()
    #: The destination of all its requests, if the input has one.
    to: str | None = None


NATIVE: Final = Dialect("native", Words(), native.decode)
DIALECTS: Final[Mapping[str, Dialect]] = {
    dialect.name: dialect
    for dialect in (
        NATIVE,
        Dialect("countdown", countdown.WORDS, countdown.decode),
        Dialect("airtel", airtel.WORDS, airtel.decode, callback=airtel.callback, returned=airtel.returned),
        Dialect("etf1", etf1.WORDS, etf1.decode, options=("grace",)),
        Dialect("karafka", karafka.WORDS, karafka.decode),
        Dialect("nats", nats.WORDS, nats.decode),
        Dialect("spring", spring.WORDS, spring.decode, options=("to",)),
        Dialect("deliver-after", deliver_after.WORDS, deliver_after.decode, options=("to",)),
        Dialect("publish-after", publish_after.WORDS, publish_after.decode, options=("to", "header")),
    )
}
#: Rows do not have the dialect of their requests, so records about them are in this dialect.
OF_ROWS: Final = NATIVE


@lru_cache(maxsize=1_000)
def dialect_of(text: str) -> Dialect:
    """Return the dialect of an input in DELAY_INPUTS: its name and its options, separated by colons.

    Raises ValueError with the valid values.
    """
    name, *given = text.split(":", 2)
    dialect = DIALECTS.get(name)
    if dialect is None:
        msg = f"{name!r} is not a dialect; the dialects are {', '.join(DIALECTS)}"
        raise ValueError(msg)
    if len(given) > len(dialect.options):
        takes = " and ".join(dialect.options) or "nothing"
        msg = f"{name} takes {takes} after its name, not {len(given)} values"
        raise ValueError(msg)
    if "to" in dialect.options and not given:
        msg = f"{name} needs a destination topic after its name: {name}:orders"
        raise ValueError(msg)
    if not given:
        return dialect
    options = {option: _OPTIONS[option](value) for option, value in zip(dialect.options, given, strict=False)}
    return replace(dialect, decode=partial(dialect.decode, **options), to=options.get("to"))


def _topic(text: str) -> str:
    if not TOPIC_NAME.fullmatch(text):
        msg = f"{text!r} is not a valid topic name. Use letters, digits, dots, underscores and hyphens"
        raise ValueError(msg)
    return text


def _header(text: str) -> str:
    if not text or text.startswith(names.PREFIX):
        msg = f"{text!r} is not a header name of yours. Use one that does not begin with {names.PREFIX}"
        raise ValueError(msg)
    return text


_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {"to": _topic, "header": _header, "grace": parse_duration}
