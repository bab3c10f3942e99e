"""The types of problems, whose names are stable: the errors of requests (docs/reference/problems.md)."""

from typing import Final

import msgspec

from punctual.contract.request import Reason

#: Workers and gateways explain problem types below this path; a type's URI is the path and the type's name.
PATH: Final = "/problems/"


class ProblemType(msgspec.Struct, frozen=True, omit_defaults=True):
    """The meaning of a problem type; `retry_after_s` is its usual `Retry-After`, if it has one."""

    type: str
    title: str
    status: int
    retry_after_s: int | None = None

    @property
    def name(self) -> str:
        """The name of the type."""
        return self.type.removeprefix(PATH)


def _type(name: str, status: int, title: str, retry_after_s: int | None = None) -> ProblemType:
    return ProblemType(PATH + name, title, status, retry_after_s)


#: Requests that the worker would refuse, by the reason in the dead letter.
_REASONS: Final = (
    _type(Reason.MALFORMED, 422, "A field is invalid, or conflicts with another field"),
    _type(Reason.BAD_TIMESTAMP, 422, "The record's timestamp is missing, or ahead of the brokers' clock"),
    _type(Reason.MISSING_DESTINATION, 422, "The destination is missing"),
    _type(Reason.MISSING_DUE, 422, "The due time is missing"),
    _type(Reason.AMBIGUOUS_DUE, 422, "The due time is given more than once"),
    _type(Reason.BAD_ID, 422, "The ID is empty, too long, missing, or not UTF-8"),
    _type(Reason.TOO_FAR, 422, "The due time is too far ahead"),
    _type(Reason.TOO_LARGE, 413, "The message is larger than Kafka accepts"),
    _type(Reason.UNKNOWN_TOPIC, 422, "The destination, or this partition of it, does not exist"),
    _type(Reason.UNKNOWN_CLUSTER, 422, "The destination's cluster is not configured"),
    _type(Reason.NOT_ALLOWED, 403, "The destination is not allowed"),
    _type(Reason.TOO_MANY_DESTINATIONS, 503, "Too many destinations have pending messages"),
    _type(Reason.UNDELIVERABLE, 422, "The destination has refused the message for too long"),
    _type(Reason.INVALID_RECORD, 422, "The destination topic does not accept this record"),
    _type(Reason.TOO_LATE, 422, "The message is later than its maximum lateness"),
    _type(Reason.ATTEMPTS_EXHAUSTED, 422, "All attempts have failed"),
    _type(Reason.QUOTA, 429, "A quota is used up", 5),
)
#: Outcomes of commands for one message.
_ORDERS: Final = (
    _type("unknown-message", 404, "No message with this ID is pending"),
    _type("came-too-late", 409, "The message was delivered before the command arrived"),
    _type("conflict", 409, "The message is being delivered, or the command does not apply to it"),
    _type("stale", 409, "A later request or command applies"),
    _type("changed", 412, "The message has a different due time than If-Match"),
)
#: Faults of a request that do not depend on its purpose.
_REQUESTS: Final = (
    _type("bad-request", 400, "The request is not valid HTTP"),
    _type("bad-json", 400, "The body is not JSON"),
    _type("unauthorized", 401, "The login or token is missing, expired or wrong"),
    _type("forbidden", 403, "The caller has no permission for this"),
    _type("idempotency-key", 400, "The header Idempotency-Key is invalid"),
    _type("idempotency-key-reused", 422, "The Idempotency-Key was used for another request"),
    _type("in-progress", 409, "The first request with this Idempotency-Key is still in progress", 1),
    _type("invalid-parameter", 400, "A parameter or field is invalid"),
    _type("read-only", 403, "This worker is read-only"),
    _type("not-found", 404, "This address does not exist"),
    _type("unknown-dead-letter", 404, "There is no such dead letter"),
    _type("unknown-destination", 404, "The destination does not exist, and no message for it is pending"),
    _type("unknown-job", 404, "There is no such job"),
    _type("unknown-partition", 404, "This worker does not serve the partition"),
    _type("method-not-allowed", 405, "This address does not support this method"),
    _type("timeout", 408, "The request arrived too slowly"),
    _type("body-too-large", 413, "The body is too large"),
    _type("too-many-messages", 413, "The batch has too many messages"),
    _type("uri-too-long", 414, "The address is too long"),
    _type("unsupported-media-type", 415, "The body's media type or encoding is not supported"),
    _type("misdirected", 421, "This server does not accept this host name"),
    _type("rate", 429, "Too many requests in too short a time"),
    _type("headers-too-large", 431, "The request's headers are too large"),
)
#: Faults of the server.
_ITSELF: Final = (
    _type("internal", 500, "The server has failed"),
    _type("process-exited", 502, "The process that handled the request has exited"),
    _type("disk-full", 503, "The disk of this server stores no more", 5),
    _type("busy", 503, "Too many large requests, searches or streams are in progress", 2),
    _type("not-ready", 503, "The worker cannot answer this yet", 2),
    _type("kafka-unavailable", 503, "Kafka does not answer, or does not accept the record", 2),
    _type("keys-unread", 503, "The server has not read all idempotency keys yet", 1),
    _type("unreachable", 503, "The worker that has the message or partition does not answer", 2),
)
TYPES: Final = {kind.name: kind for kind in (*_REASONS, *_ORDERS, *_REQUESTS, *_ITSELF)}
#: The type of an error from aiohttp, by HTTP status.
OF_STATUS: Final = {kind.status: kind for kind in reversed(_REQUESTS)}
