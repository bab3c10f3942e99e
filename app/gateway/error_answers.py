"""Turns whatever goes wrong with a request into an answer: nothing leaves the gateway as an error of its own kind."""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from app.gateway import problem
from app.gateway.problem import Problem
from app.gateway.problem_types import OF_STATUS

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer what raises an error with a problem."""
    try:
        return await handler(request)
    except Problem as error:
        return problem.response(error)
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        return problem.response(of_status(error, f"{request.method} {request.path}"))
    except Exception:
        log.exception("%s %s has failed", request.method, request.path)
        return problem.response(Problem("internal", "The gateway has failed; its log says why."))


def of_status(error: web.HTTPException, asked: str) -> Problem:
    """Return the problem that an error of aiohttp's is."""
    kind = OF_STATUS.get(error.status, OF_STATUS[HTTPStatus.BAD_REQUEST])
    headers = {name: value for name, value in error.headers.items() if name == "Allow"}
    return Problem(kind.name, f"{asked}: {error.reason}. GET /openapi.json says what there is.", headers=headers)
