"""The roles for each route of workers and gateways, written a second time by hand: a new route is added here too."""

import re
from typing import Final, NamedTuple

from app.serve.access.caller import ROLES, Role


class Row(NamedTuple):
    """The lowest role that may use a route, and whether callers who are bound to namespaces may."""

    role: str
    bound: bool = False


#: The routes that only gateways have.
GATEWAY: Final = {
    "GET /live": Row("open"),
    "GET /ready": Row("open"),
    "POST /kafka/v3/clusters/{cluster}/topics/{topic}/records": Row("operator", bound=True),
}
#: The routes that workers and gateways have.
BOTH: Final = {
    "GET /health/live": Row("open"),
    "GET /health/ready": Row("open"),
    "GET /problems/{name}": Row("open"),
    "GET /api/v1/openapi.json": Row("open"),
    "PATCH /api/v1/messages/{id}": Row("operator", bound=True),
    "DELETE /api/v1/messages/{id}": Row("operator", bound=True),
    "GET /metrics": Row("viewer"),
    "GET /api/v1/messages/{id}": Row("viewer", bound=True),
    "POST /api/v1/messages": Row("operator", bound=True),
    **dict.fromkeys(
        (
            *("GET /api/v1/messages", "GET /api/v1/messages/count", "GET /api/v1/timeline", "GET /api/v1/namespaces"),
            *("GET /api/v1/jobs", "GET /api/v1/jobs/{id}", "GET /api/v1/dead-letters"),
            *("GET /api/v1/dead-letters/count", "GET /api/v1/dead-letters/{partition}-{offset}"),
        ),
        Row("viewer", bound=True),
    ),
    **dict.fromkeys(
        (
            *("GET /api/v1/overview", "GET /api/v1/partitions", "GET /api/v1/destinations", "GET /api/v1/history"),
            *("GET /api/v1/partitions/{partition}/destinations", "GET /api/v1/findings"),
        ),
        Row("viewer"),
    ),
    "GET /api/v1/audit": Row("admin", bound=True),
    **{
        f"POST /api/v1/messages/{{id}}/{act}": Row("operator", bound=True)
        for act in ("cancel", "reschedule", "deliver-now", "pause", "resume")
    },
}
#: The routes that only workers have.
WORKER: Final = {
    "GET /static/{name}": Row("open"),
    **dict.fromkeys(("GET /sign-in", "GET /sign-in/begin", "GET /sign-in/done", "POST /sign-out"), Row("open")),
    **{
        f"GET /api/v1/local/{name}": Row("workers")
        for name in ("messages", "count", "message", "timeline", "jobs", "signed-out")
    },
    **dict.fromkeys(
        (
            *("GET /", "GET /find", "GET /find/all", "GET /messages/{id}", "GET /new", "GET /recurring", "GET /jobs"),
            *("GET /jobs/{id}", "GET /dead-letters", "GET /dead-letters/all", "GET /sign-in/password"),
            *("GET /dead-letters/{partition}-{offset}", "GET /api/v1/events"),
        ),
        Row("viewer", bound=True),
    ),
    **dict.fromkeys(
        (*("GET /destinations", "GET /destinations/{name}", "GET /workers"),),
        Row("viewer"),
    ),
    **dict.fromkeys(
        (
            *("POST /api/v1/dead-letters/{partition}-{offset}/resend", "POST /api/v1/jobs/{id}/stop", "POST /new"),
            *("POST /messages/{id}/{act}", "POST /jobs/{id}/stop", "POST /dead-letters/{partition}-{offset}/resend"),
        ),
        Row("operator", bound=True),
    ),
    **dict.fromkeys(
        ("POST /api/v1/jobs", "POST /find/all", "POST /dead-letters/all", "GET /audit"),
        Row("admin", bound=True),
    ),
    **dict.fromkeys(
        (
            *(f"POST /api/v1/destinations/{{to}}/{act}" for act in ("pause", "resume", "rate")),
            *(f"POST /destinations/{{name}}/{act}" for act in ("pause", "resume", "rate")),
        ),
        Row("admin"),
    ),
}
FILLED: Final = {"act": "cancel", "partition": "0", "offset": "1", "topic": "delay-requests"}


def address(place: str) -> str:
    """Return an address of a route."""
    return re.sub(r"\{(\w+)\}", lambda found: FILLED.get(found[1], "x"), place.partition(" ")[2])


def may(row: Row, role: Role | None, *, bound: bool) -> bool:
    """Return whether a caller with a role, or without credentials, gets past the gate."""
    if row.role == "open":
        return True
    return role is not None and row.role in ROLES[: ROLES.index(role) + 1] and (row.bound or not bound)
