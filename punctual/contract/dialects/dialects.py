"""The dialects, by name: how the requests of an input topic are read, and what is written about them."""

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
    """One way to ask for delayed messages, and to be told about them. Its functions are documented in its module.

    Rows do not say in which dialect they were asked for. So what a delivery carries by its dialect is among the user's
    headers of the decoded request, and what is written about rows is native for all.
    """

    name: str
    words: Words
    #: The request that a record makes; raises Refusal.
    decode: Callable[..., Request]
    #: The headers of a delivery that is due then.
    delivery: Callable[[Message, int], Headers] = native.delivery
    #: The headers of a request for the same message, due then, to the requests topic.
    again: Callable[[Message, int], Headers] = native.again
    #: Of a record that was refused, the headers that its dead letter keeps.
    kept: Callable[[Record], Headers] = native.kept
    #: Of a record that was refused, the URL that is to be told, if any, and the user's own headers.
    callback: Callable[[Record], tuple[str, Headers]] = native.callback
    #: The body of a failure callback for a message that was accepted, due then; None makes it the default one.
    returned: Callable[[Message, int], bytes | None] | None = None
    #: What a dead letter says itself: reason, sentence, and the source of what it is about.
    failure: Callable[[Reason, str, str], Headers] = native.failure
    #: What may follow its name in DELAY_INPUTS, in this order: keywords of `decode`.
    options: tuple[str, ...] = ()
    #: The destination of all its requests, where the input has one.
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
#: Rows do not say in which dialect they were asked for: what is written about them is in this one until they do.
OF_ROWS: Final = NATIVE


@lru_cache(maxsize=1_000)
def dialect_of(text: str) -> Dialect:
    """Return the dialect of an input as DELAY_INPUTS has it: its name, and what follows it, each after a colon.

    Raises ValueError with what is needed instead.
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
