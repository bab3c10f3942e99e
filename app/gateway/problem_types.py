"""What can be wrong with a request to the gateway: types whose names stay (docs/reference/problems.md)."""

from dataclasses import dataclass
from typing import Final

import msgspec

from punctual.contract.request import Reason

#: Where a gateway tells what a type means; a type's URI is this and its name.
PATH: Final = "/problems/"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of problem: its name, the status that it is answered with, and what it means in a few words."""

    name: str
    status: int
    title: str

    @property
    def uri(self) -> str:
        """What `type` says of it (RFC 9457)."""
        return PATH + self.name


class Meaning(msgspec.Struct, frozen=True):
    """What a type of problem means."""

    type: str
    title: str
    status: int


#: What the worker would refuse, by the reason that a dead letter would have.
_REASONS: Final = (
    ProblemType(Reason.MALFORMED, 422, "A field cannot be understood, or does not go with another"),
    ProblemType(Reason.BAD_TIMESTAMP, 422, "The record's timestamp is missing, or ahead of the brokers' clock"),
    ProblemType(Reason.MISSING_DESTINATION, 422, "Nothing says where to deliver to"),
    ProblemType(Reason.MISSING_DUE, 422, "Nothing says when the message is due"),
    ProblemType(Reason.AMBIGUOUS_DUE, 422, "The due time is said more than once"),
    ProblemType(Reason.BAD_ID, 422, "The id is empty, too long, missing, or no text"),
    ProblemType(Reason.TOO_FAR, 422, "The due time is too far ahead"),
    ProblemType(Reason.TOO_LARGE, 413, "The message is larger than Kafka takes"),
    ProblemType(Reason.UNKNOWN_TOPIC, 422, "The destination, or its partition, is not there"),
    ProblemType(Reason.UNKNOWN_CLUSTER, 422, "The destination's cluster is none of the settings'"),
    ProblemType(Reason.NOT_ALLOWED, 403, "The destination is not allowed"),
    ProblemType(Reason.TOO_MANY_DESTINATIONS, 503, "Too many destinations have messages waiting"),
    ProblemType(Reason.UNDELIVERABLE, 422, "The destination has refused the message for too long"),
    ProblemType(Reason.INVALID_RECORD, 422, "The destination's topic does not take such a record"),
    ProblemType(Reason.TOO_LATE, 422, "The message is later than it may be"),
    ProblemType(Reason.ATTEMPTS_EXHAUSTED, 422, "All attempts have failed"),
    ProblemType(Reason.QUOTA, 429, "As much is pending, or is sent, as may be"),
)
#: What comes of orders for one message.
_ORDERS: Final = (
    ProblemType("unknown-message", 404, "No message with this id is pending"),
    ProblemType("came-too-late", 409, "The order came too late"),
    ProblemType("conflict", 409, "The message is being delivered, or the order does not fit it"),
    ProblemType("stale", 409, "Something that was asked for later holds"),
    ProblemType("changed", 412, "The message is not due when If-Match says"),
)
#: What is wrong with a request, whatever it asks for.
_REQUESTS: Final = (
    ProblemType("bad-request", 400, "The request cannot be understood"),
    ProblemType("bad-json", 400, "The body is no JSON"),
    ProblemType("unauthorized", 401, "No token, or none that is known"),
    ProblemType("forbidden", 403, "The token does not allow this"),
    ProblemType("idempotency-key", 400, "The header Idempotency-Key is no key"),
    ProblemType("idempotency-key-reused", 422, "The Idempotency-Key came with another request before"),
    ProblemType("in-progress", 409, "The first request with this Idempotency-Key is being carried out"),
    ProblemType("not-found", 404, "There is nothing at this address"),
    ProblemType("method-not-allowed", 405, "The address does not know this method"),
    ProblemType("timeout", 408, "The request took too long to come"),
    ProblemType("body-too-large", 413, "The body is too large"),
    ProblemType("too-many-messages", 413, "More messages than one request may bring"),
    ProblemType("uri-too-long", 414, "The address is too long"),
    ProblemType("unsupported-media-type", 415, "The body's media type, or its coding, is none that is read here"),
    ProblemType("misdirected", 421, "Nothing is served here under this name"),
    ProblemType("rate", 429, "Too many requests in too short a time"),
    ProblemType("headers-too-large", 431, "The request's headers are too large"),
)
#: What the gateway cannot do now.
_ITSELF: Final = (
    ProblemType("internal", 500, "The gateway has failed"),
    ProblemType("spool-full", 503, "Kafka is away, and the spool takes no more"),
    ProblemType("busy", 503, "Too many large requests are being read"),
    ProblemType("keys-unread", 503, "Which keys there have been is not known yet"),
    ProblemType("unreachable", 503, "The worker that knows does not answer"),
)
TYPES: Final = {kind.name: kind for kind in (*_REASONS, *_ORDERS, *_REQUESTS, *_ITSELF)}
#: By status, what is said of errors that come from elsewhere.
OF_STATUS: Final = {kind.status: kind for kind in reversed(_REQUESTS)}
