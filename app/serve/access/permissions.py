"""Permissions: one table with the role that each route of workers and gateways needs.

A route that is not in the table is refused. `WITHIN` has the routes that callers of single namespaces may use, who see
and change only the contents of their namespaces.
"""

from collections.abc import Mapping
from typing import Final, Literal

from app.serve.access.caller import ROLES, Caller, Role, enough

#: A role, open to all, or only for the installation's workers.
Need = Role | Literal["open", "workers"]

#: Open to all: health checks, files without a secret, and the routes for signing in.
_OPEN: Final = (
    *("GET /health/live", "GET /health/ready", "GET /live", "GET /ready"),
    *("GET /api/v1/openapi.json", "GET /problems/{name}", "GET /static/{name}"),
    *("GET /sign-in", "GET /sign-in/begin", "GET /sign-in/done", "POST /sign-out"),
)
#: Requests between workers, with DELAY_WEB_SECRET.
_WORKERS: Final = (
    *("GET /api/v1/local/messages", "GET /api/v1/local/count", "GET /api/v1/local/message"),
    *("GET /api/v1/local/timeline", "GET /api/v1/local/jobs", "GET /api/v1/local/signed-out"),
)
#: To read messages, dead letters and jobs; users who are bound to namespaces read only from theirs.
_VIEWER: Final = (
    *("GET /api/v1/messages", "GET /api/v1/messages/count", "GET /api/v1/messages/{id}"),
    *("GET /api/v1/timeline", "GET /api/v1/namespaces", "GET /api/v1/events"),
    *("GET /api/v1/dead-letters", "GET /api/v1/dead-letters/count", "GET /api/v1/dead-letters/{partition}-{offset}"),
    *("GET /api/v1/jobs", "GET /api/v1/jobs/{id}"),
    *("GET /sign-in/password", "GET /", "GET /new", "GET /recurring", "GET /jobs", "GET /jobs/{id}"),
    *("GET /find", "GET /find/all", "GET /messages/{id}"),
    *("GET /dead-letters", "GET /dead-letters/all", "GET /dead-letters/{partition}-{offset}"),
)
#: To read about the whole installation.
_VIEWER_OF_ALL: Final = (
    *("GET /metrics", "GET /api/v1/overview", "GET /api/v1/history", "GET /api/v1/findings"),
    *("GET /api/v1/partitions", "GET /api/v1/partitions/{partition}/destinations", "GET /api/v1/destinations"),
    *("GET /workers", "GET /destinations", "GET /destinations/{name}"),
)
#: To act on one message, and to stop jobs.
_OPERATOR: Final = (
    *("POST /api/v1/messages", "PATCH /api/v1/messages/{id}", "DELETE /api/v1/messages/{id}"),
    *("POST /api/v1/messages/{id}/cancel", "POST /api/v1/messages/{id}/reschedule"),
    *("POST /api/v1/messages/{id}/deliver-now", "POST /api/v1/messages/{id}/pause"),
    "POST /api/v1/messages/{id}/resume",
    *("POST /api/v1/dead-letters/{partition}-{offset}/resend", "POST /api/v1/jobs/{id}/stop"),
    "POST /kafka/v3/clusters/{cluster}/topics/{topic}/records",
    *("POST /new", "POST /messages/{id}/{act}", "POST /jobs/{id}/stop"),
    "POST /dead-letters/{partition}-{offset}/resend",
)
#: To act on many messages at once, and to read the audit.
_ADMIN: Final = ("POST /api/v1/jobs", "GET /api/v1/audit", "GET /audit", "POST /find/all", "POST /dead-letters/all")
#: To act on whole destinations, which may be shared with others.
_ADMIN_OF_ALL: Final = (
    *("POST /api/v1/destinations/{to}/pause", "POST /api/v1/destinations/{to}/resume"),
    *("POST /api/v1/destinations/{to}/rate", "POST /destinations/{name}/pause"),
    *("POST /destinations/{name}/resume", "POST /destinations/{name}/rate"),
)

#: The role by method and path, the path as its route is registered.
NEEDS: Final[Mapping[str, Need]] = {
    **dict.fromkeys(_OPEN, "open"),
    **dict.fromkeys(_WORKERS, "workers"),
    **dict.fromkeys((*_VIEWER, *_VIEWER_OF_ALL), "viewer"),
    **dict.fromkeys(_OPERATOR, "operator"),
    **dict.fromkeys((*_ADMIN, *_ADMIN_OF_ALL), "admin"),
}
#: The routes for callers who are bound to namespaces, with responses about their namespaces only. All other routes
#: refuse these callers.
WITHIN: Final = frozenset({*_VIEWER, *_OPERATOR, *_ADMIN})


def may(caller: Caller, route: str) -> bool:
    """Return whether a user may use a route, written as in the table."""
    need = NEEDS.get(route)
    if need in ROLES and not enough(caller.role, need):
        return False
    return need is not None and (not caller.bound or route in WITHIN)
