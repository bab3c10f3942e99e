"""Errors as Confluent's REST proxy has them: a code, of which the first three digits are HTTP's, and a message."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web

from app.gateway.http.problem import Problem

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
