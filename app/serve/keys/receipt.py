"""Records of the topic of receipts: the receipt of a request, and its response.

The key of a record is the digest of the request's key, its value a Receipt or an Answered as JSON.
"""

from typing import Self

import msgspec

from app.base.process.skipped_records import bounded


class GivenAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The response to a request."""

    status: int
    body: str = ""
    headers: dict[str, str] = {}


class Receipt(msgspec.Struct, frozen=True, tag="receipt", tag_field="kind"):
    """The receipt of a request: its digest, its worker or `gateway`, and its arrival by that server's clock (ms)."""

    request: bytes
    gateway: str
    asked_ms: int


class Answered(msgspec.Struct, frozen=True, tag="answered", tag_field="kind"):
    """The response to the request whose receipt `gateway` wrote at `asked_ms`."""

    gateway: str
    asked_ms: int
    answer: GivenAnswer


Record = Receipt | Answered

encode = msgspec.json.Encoder().encode
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def decode(value: bytes | None) -> Record:
    """Return the record in a value. Raises ValueError for an invalid value."""
    try:
        return _decoder.decode(bounded(value))
    except RecursionError as error:
        raise ValueError("it has too many levels of nesting") from error


class Known(msgspec.Struct, frozen=True, array_like=True):
    """A known key: its first receipt, and the response if there is one.

    The key is valid for a day from `since_ms`: the broker's time of writing, or this server's clock for a receipt
    that is `local`, not read from the topic.
    """

    request: bytes
    gateway: str
    asked_ms: int
    since_ms: int
    local: bool = False
    answer: GivenAnswer | None = None

    @classmethod
    def of(cls, receipt: Receipt, since_ms: int, *, local: bool = False) -> Self:
        """Return the known key for a first receipt."""
        return cls(receipt.request, receipt.gateway, receipt.asked_ms, since_ms, local)

    def is_of(self, record: Receipt | Answered) -> bool:
        """Return whether a record is this receipt, or its response."""
        return (self.gateway, self.asked_ms) == (record.gateway, record.asked_ms)

    @property
    def receipt(self) -> Receipt:
        """The receipt, as it is written to the topic."""
        return Receipt(self.request, self.gateway, self.asked_ms)

    @property
    def answered(self) -> Answered | None:
        """The response, as it is written to the topic, if there is one."""
        return None if self.answer is None else Answered(self.gateway, self.asked_ms, self.answer)
