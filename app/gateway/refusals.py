"""Counts refused requests by problem type and caller name; labels contain no token, key or body."""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Counter

from app.serve.access.caller import caller_of
from app.serve.web.problem import KIND, Problem
from app.serve.web.problem_types import OF_STATUS

#: Not the registry of the whole process, because a worker imports the gateway's command too.
METRICS: Final = CollectorRegistry()
_REFUSED: Final = Counter(
    "delay_gateway_refused",
    "Refused requests, by type of problem and by caller.",
    ["type", "caller"],
    registry=METRICS,
)
_CUT_OFF: Final = Counter(
    "delay_gateway_cut_off",
    "Connections that were closed or rejected, by reason.",
    ["reason"],
    registry=METRICS,
)
_ERRORS_FROM: Final = 400


def refused(kind: str, caller: str = "") -> None:
    """Count a refused request."""
    _REFUSED.labels(kind, caller).inc()


def cut_off(reason: str) -> None:
    """Count a closed connection: a `handshake`, `head`, `body` or `answer` too slow; too `many`, or of an `address`."""
    _CUT_OFF.labels(reason).inc()


@web.middleware
async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a request, and count it if it is refused."""
    try:
        answer = await handler(request)
    except Problem as problem:
        refused(problem.kind.name, caller_of(request).login)
        raise
    except web.HTTPException as error:
        kind = OF_STATUS.get(error.status)
        if error.status >= _ERRORS_FROM:
            refused(kind.name if kind is not None else "bad-request", caller_of(request).login)
        raise
    if answer.status >= _ERRORS_FROM:
        refused(answer.get(KIND, "bad-request"), caller_of(request).login)
    return answer
