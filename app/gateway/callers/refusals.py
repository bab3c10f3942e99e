"""Counts what is refused, by the problem's type and the caller's name: no token, no key, nothing of a body."""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Counter

from app.base.listening.limits import HttpRefusal
from app.gateway.callers.caller import caller_of
from app.serve.web.problem import KIND, Problem, response
from app.serve.web.problem_types import OF_STATUS

#: Not the registry of the whole process: a worker has the gateway's command, and is none.
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
    """Count a request that is refused."""
    _REFUSED.labels(kind, caller).inc()


class GatewayRefusals:
    """Answers refusals of the gateway's connections and bodies with problems, and counts them."""

    def error(self, refusal: HttpRefusal) -> Exception:
        """Return the problem that a refusal is."""
        return Problem(refusal.kind, refusal.sentence, headers=refusal.headers)

    def answer(self, refusal: HttpRefusal) -> web.Response:
        """Return the answer to bytes that are not an HTTP request, and count it."""
        refused(refusal.kind)
        return response(Problem(refusal.kind, refusal.sentence, headers=refusal.headers))

    def cut_off(self, reason: str) -> None:
        """Count a connection that is ended: a `head`, `body` or `answer` too slow; too `many`, or of an `address`."""
        _CUT_OFF.labels(reason).inc()


@web.middleware
async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer, and count what is refused."""
    try:
        answer = await handler(request)
    except Problem as problem:
        refused(problem.kind.name, caller_of(request).name)
        raise
    except web.HTTPException as error:
        kind = OF_STATUS.get(error.status)
        if error.status >= _ERRORS_FROM:
            refused(kind.name if kind is not None else "bad-request", caller_of(request).name)
        raise
    if answer.status >= _ERRORS_FROM:
        refused(answer.get(KIND, "bad-request"), caller_of(request).name)
    return answer
