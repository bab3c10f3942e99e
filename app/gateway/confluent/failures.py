"""Errors in the form of Confluent's REST proxy: a message, and a code whose first three digits are the HTTP status."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web

from app.serve.web import problem
from app.serve.web.problem import KIND, Problem

#: The prefix of paths with the proxy's form of errors.
PREFIX: Final = "/kafka/"
_LONG: Final = 1_000


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a request, or of one record."""

    error_code: int
    message: str


def failure_of(problem: Problem) -> Failure:
    """Return the failure for a problem with a record: the reason comes first, as in a dead letter."""
    code = problem.status
    if code == HTTPStatus.UNPROCESSABLE_ENTITY:
        code = HTTPStatus.BAD_REQUEST  # the proxy's status for invalid data
    return Failure(error_code=code, message=f"{problem.kind.name}: {problem.detail}")


def failed(failure: Failure, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response with only a failure."""
    status = failure.error_code if failure.error_code < _LONG else failure.error_code // 100
    body = msgspec.json.encode(failure)
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def answer(request: web.Request, error: Problem) -> web.Response:
    """Return the response for a problem, in the form that the path uses."""
    if not request.path.startswith(PREFIX):
        return problem.response(error)
    response = failed(failure_of(error), error.headers)
    response[KIND] = error.kind.name
    return response
