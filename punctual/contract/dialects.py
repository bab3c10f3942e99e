"""The dialects, by name: how the requests of an input topic are read, and what is written about them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from punctual.contract import headers as names
from punctual.contract import native
from punctual.contract.message import Message
from punctual.contract.native import Record
from punctual.contract.request import Headers, Reason, Request


@dataclass(frozen=True, slots=True)
class Words:
    """What parts of a request are called in its dialect, for sentences to its sender."""

    partition: str
    cluster: str
    max_late: str
    on_failure: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to ask for delayed messages, and to be told about them. Its functions are documented in its module."""

    name: str
    words: Words
    #: The request that a record makes; raises Refusal.
    decode: Callable[[Record], Request]
    #: The headers of a delivery that is due then.
    delivery: Callable[[Message, int], Headers]
    #: The headers of a request for the same message, due then.
    again: Callable[[Message, int], Headers]
    #: Of a record that was refused, the headers that its dead letter keeps.
    kept: Callable[[Record], Headers]
    #: Of a record that was refused, the URL that is to be told, if any, and the user's own headers.
    callback: Callable[[Record], tuple[str, Headers]]
    #: What a dead letter says itself: reason, sentence, and the source of what it is about.
    failure: Callable[[Reason, str, str], Headers]


NATIVE: Final = Dialect(
    "native",
    Words(names.TO_PARTITION, names.TO_CLUSTER, names.MAX_LATE, names.ON_FAILURE),
    native.decode,
    native.delivery,
    native.again,
    native.kept,
    native.callback,
    native.failure,
)
DIALECTS: Final[Mapping[str, Dialect]] = {dialect.name: dialect for dialect in (NATIVE,)}
#: Rows do not say in which dialect they were asked for: what is written about them is in this one until they do.
OF_ROWS: Final = NATIVE
