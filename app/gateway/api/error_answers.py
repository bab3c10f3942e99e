"""Turns whatever goes wrong with a request into an answer: a problem, or an error as Confluent's REST proxy has them.

The proxy's errors have a code, of which the first three digits are HTTP's, and a message.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web

from app.serve.web import problem
from app.serve.web.problem import Problem

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer what raises an error with a problem."""
    try:
        return await handler(request)
    except Problem as error:
        return _answer(request, error)
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        return _answer(request, problem.of_status(error, request, "See GET /api/v1/openapi.json."))
    except ConnectionError:  # nobody is there to be answered
        raise
    except Exception:
        log.exception("%s %s has failed", request.method, request.path)
        return _answer(request, Problem("internal", "The gateway failed. See its log."))


def register(web_app: web.Application, _parts: object) -> None:
    """Have an application answer errors so, what surrounds its handlers included: first of all."""
    web_app.middlewares.append(problems)


def _answer(request: web.Request, error: Problem) -> web.Response:
    """Return the answer that a problem is, as the address has them."""
    if request.path.startswith(PREFIX):
        return failed(failure_of(error), error.headers)
    return problem.response(error)


#: What begins the addresses whose errors are these.
PREFIX: Final = "/kafka/"
_LONG: Final = 1_000


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a request, or of one record."""

    error_code: int
    message: str

    @property
    def status(self) -> int:
        """The status of an answer that is nothing else."""
        code = self.error_code
        return code if code < _LONG else code // 100


def failure_of(problem: Problem) -> Failure:
    """Return what is told of a problem with a record: the reason comes first, as a dead letter has it."""
    code = problem.status
    if code == HTTPStatus.UNPROCESSABLE_ENTITY:
        code = HTTPStatus.BAD_REQUEST  # which the proxy says of data that are wrong
    return Failure(error_code=code, message=f"{problem.kind.name}: {problem.detail}")


def failed(failure: Failure, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an answer that is a failure."""
    return web.Response(
        body=msgspec.json.encode(failure), status=failure.status, headers=headers, content_type="application/json"
    )
