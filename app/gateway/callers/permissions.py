"""Who may use which route of the gateway: one table. A route that is not in it is refused."""

from collections.abc import Mapping
from typing import Final, Literal

Need = Literal["open", "metrics", "caller"]

#: Everybody: health checks, and what the API is like.
_OPEN: Final = (
    "GET /live",
    "GET /ready",
    "GET /api/v1/openapi.json",
    "GET /problems/{name}",
)
#: Whoever has a token; each acts on the messages of its own namespace alone.
_CALLER: Final = (
    "POST /api/v1/messages",
    "GET /api/v1/messages/{id}",
    "PATCH /api/v1/messages/{id}",
    "DELETE /api/v1/messages/{id}",
    "POST /api/v1/messages/{id}/deliver-now",
    "POST /kafka/v3/clusters/{cluster}/topics/{topic}/records",
)
#: By method and path, the path as its route is registered.
NEEDS: Final[Mapping[str, Need]] = {
    **dict.fromkeys(_OPEN, "open"),
    "GET /metrics": "metrics",
    **dict.fromkeys(_CALLER, "caller"),
}
