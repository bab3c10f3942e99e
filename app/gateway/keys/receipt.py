"""Records of the topic of receipts: that a request has come, and what it was answered.

The key of a record is the digest of the request's key, its value one of these as JSON.
"""

from typing import Self

import msgspec

from app.base.process.skipped_records import bounded


class GivenAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request was answered."""

    status: int
    body: str = ""
    headers: dict[str, str] = {}


class Receipt(msgspec.Struct, frozen=True, tag="receipt", tag_field="kind"):
    """That a request has come: its digest, which gateway has it, and when it came by that gateway's clock (ms)."""

    request: bytes
    gateway: str
    asked_ms: int


class Answered(msgspec.Struct, frozen=True, tag="answered", tag_field="kind"):
    """What the request was answered whose receipt `gateway` has written at `asked_ms`."""

    gateway: str
    asked_ms: int
    answer: GivenAnswer


Record = Receipt | Answered

encode = msgspec.json.Encoder().encode
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def decode(value: bytes | None) -> Record:
    """Return a record's value. Raises ValueError if it is none of these."""
    try:
        return _decoder.decode(bounded(value))
    except RecursionError as error:
        raise ValueError("it has too many levels of nesting") from error


class Known(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a key: its first receipt, and the answer if there is one.

    `since_ms` is when the day of the key begins: the broker's time of writing, or this gateway's clock of a receipt
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
        """Return what a first receipt makes known."""
        return cls(receipt.request, receipt.gateway, receipt.asked_ms, since_ms, local)

    def is_of(self, record: Receipt | Answered) -> bool:
        """Return whether a record is this receipt, or its answer."""
        return (self.gateway, self.asked_ms) == (record.gateway, record.asked_ms)

    @property
    def receipt(self) -> Receipt:
        """The receipt, as it is written to the topic."""
        return Receipt(self.request, self.gateway, self.asked_ms)

    @property
    def answered(self) -> Answered | None:
        """The answer, as it is written to the topic, if there is one."""
        return None if self.answer is None else Answered(self.gateway, self.asked_ms, self.answer)
