"""Permissions of the gateway's routes: one table. A route that is not in it is refused."""

from collections.abc import Mapping
from typing import Final, Literal

Need = Literal["open", "metrics", "caller"]

#: Open to all: health checks, and the description of the API.
_OPEN: Final = (
    "GET /live",
    "GET /ready",
    "GET /api/v1/openapi.json",
    "GET /problems/{name}",
)
#: For callers with a token; each acts only on the messages of its own namespace.
_CALLER: Final = (
    "POST /api/v1/messages",
    "GET /api/v1/messages/{id}",
    "PATCH /api/v1/messages/{id}",
    "DELETE /api/v1/messages/{id}",
    "POST /api/v1/messages/{id}/deliver-now",
    "POST /kafka/v3/clusters/{cluster}/topics/{topic}/records",
)
#: The permission by method and path, the path as its route is registered.
NEEDS: Final[Mapping[str, Need]] = {
    **dict.fromkeys(_OPEN, "open"),
    "GET /metrics": "metrics",
    **dict.fromkeys(_CALLER, "caller"),
}
