"""The types of problems, whose names are stable: the errors of requests (docs/reference/problems.md)."""

from dataclasses import dataclass
from typing import Final

import msgspec

from punctual.contract.request import Reason

#: Workers and gateways explain problem types below this path; a type's URI is the path and the type's name.
PATH: Final = "/problems/"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One type of problem: its name, HTTP status and short meaning."""

    name: str
    status: int
    title: str

    @property
    def uri(self) -> str:
        """The value of the member `type` (RFC 9457)."""
        return PATH + self.name


class TypeMeaning(msgspec.Struct, frozen=True):
    """The meaning of a problem type."""

    type: str
    title: str
    status: int


#: Requests that the worker would refuse, by the reason in the dead letter.
_REASONS: Final = (
    ProblemType(Reason.MALFORMED, 422, "A field is invalid, or conflicts with another field"),
    ProblemType(Reason.BAD_TIMESTAMP, 422, "The record's timestamp is missing, or ahead of the brokers' clock"),
    ProblemType(Reason.MISSING_DESTINATION, 422, "The destination is missing"),
    ProblemType(Reason.MISSING_DUE, 422, "The due time is missing"),
    ProblemType(Reason.AMBIGUOUS_DUE, 422, "The due time is given more than once"),
    ProblemType(Reason.BAD_ID, 422, "The ID is empty, too long, missing, or not UTF-8"),
    ProblemType(Reason.TOO_FAR, 422, "The due time is too far ahead"),
    ProblemType(Reason.TOO_LARGE, 413, "The message is larger than Kafka accepts"),
    ProblemType(Reason.UNKNOWN_TOPIC, 422, "The destination, or this partition of it, does not exist"),
    ProblemType(Reason.UNKNOWN_CLUSTER, 422, "The destination's cluster is not configured"),
    ProblemType(Reason.NOT_ALLOWED, 403, "The destination is not allowed"),
    ProblemType(Reason.TOO_MANY_DESTINATIONS, 503, "Too many destinations have pending messages"),
    ProblemType(Reason.UNDELIVERABLE, 422, "The destination has refused the message for too long"),
    ProblemType(Reason.INVALID_RECORD, 422, "The destination topic does not accept this record"),
    ProblemType(Reason.TOO_LATE, 422, "The message is later than its maximum lateness"),
    ProblemType(Reason.ATTEMPTS_EXHAUSTED, 422, "All attempts have failed"),
    ProblemType(Reason.QUOTA, 429, "A quota is used up"),
)
#: Outcomes of commands for one message.
_ORDERS: Final = (
    ProblemType("unknown-message", 404, "No message with this ID is pending"),
    ProblemType("came-too-late", 409, "The message was delivered before the command arrived"),
    ProblemType("conflict", 409, "The message is being delivered, or the command does not apply to it"),
    ProblemType("stale", 409, "A later request or command applies"),
    ProblemType("changed", 412, "The message has a different due time than If-Match"),
)
#: Faults of a request that do not depend on its purpose.
_REQUESTS: Final = (
    ProblemType("bad-request", 400, "The request is not valid HTTP"),
    ProblemType("bad-json", 400, "The body is not JSON"),
    ProblemType("unauthorized", 401, "The login or token is missing, expired or wrong"),
    ProblemType("forbidden", 403, "The caller has no permission for this"),
    ProblemType("idempotency-key", 400, "The header Idempotency-Key is invalid"),
    ProblemType("idempotency-key-reused", 422, "The Idempotency-Key was used for another request"),
    ProblemType("in-progress", 409, "The first request with this Idempotency-Key is still in progress"),
    ProblemType("invalid-parameter", 400, "A parameter or field is invalid"),
    ProblemType("read-only", 403, "This worker is read-only"),
    ProblemType("not-found", 404, "This address does not exist"),
    ProblemType("unknown-dead-letter", 404, "There is no such dead letter"),
    ProblemType("unknown-destination", 404, "The destination does not exist, and no message for it is pending"),
    ProblemType("unknown-job", 404, "There is no such job"),
    ProblemType("unknown-partition", 404, "This worker does not serve the partition"),
    ProblemType("method-not-allowed", 405, "This address does not support this method"),
    ProblemType("timeout", 408, "The request arrived too slowly"),
    ProblemType("body-too-large", 413, "The body is too large"),
    ProblemType("too-many-messages", 413, "The batch has too many messages"),
    ProblemType("uri-too-long", 414, "The address is too long"),
    ProblemType("unsupported-media-type", 415, "The body's media type or encoding is not supported"),
    ProblemType("misdirected", 421, "This server does not accept this host name"),
    ProblemType("rate", 429, "Too many requests in too short a time"),
    ProblemType("headers-too-large", 431, "The request's headers are too large"),
)
#: Faults of the server.
_ITSELF: Final = (
    ProblemType("internal", 500, "The server has failed"),
    ProblemType("process-exited", 502, "The process that handled the request has exited"),
    ProblemType("disk-full", 503, "The disk of this server stores no more"),
    ProblemType("busy", 503, "Too many large requests, searches or streams are in progress"),
    ProblemType("not-ready", 503, "The worker cannot answer this yet"),
    ProblemType("kafka-unavailable", 503, "Kafka does not answer, or does not accept the record"),
    ProblemType("keys-unread", 503, "The server has not read all idempotency keys yet"),
    ProblemType("unreachable", 503, "The worker that has the message or partition does not answer"),
)
TYPES: Final = {kind.name: kind for kind in (*_REASONS, *_ORDERS, *_REQUESTS, *_ITSELF)}
#: The type of an error from aiohttp, by HTTP status.
OF_STATUS: Final = {kind.status: kind for kind in reversed(_REQUESTS)}
