"""What is answered to a request that cannot be done: a problem, as RFC 9457 has it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from app.gateway.http.problem_types import TYPES, ProblemType

MEDIA_TYPE = "application/problem+json"
#: Where an answer has the name of its problem's type.
KIND: Final = web.ResponseKey("kind", str)


class Fault(msgspec.Struct, frozen=True):
    """An error at one place of the body; `pointer` is a JSON pointer as a URI fragment (RFC 6901)."""

    pointer: str
    detail: str


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[Fault] = []
    id: str | None = None
    outcome: str | None = None
    source: str | None = None
    ended: str | None = None


class Problem(Exception):
    """Why a request is not done; `kind` is one of the names in `problem_types.TYPES`, `detail` a sentence."""

    def __init__(
        self,
        kind: str,
        detail: str,
        errors: Iterable[Fault] = (),
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        """Keep what is answered; `headers` go with it, and `members` are those of `Answered`."""
        super().__init__(detail)
        self.kind, self.detail = TYPES[kind], detail
        self.errors, self.headers, self.members = list(errors), dict(headers or {}), members

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.kind.status

    def answered(self, at: str = "") -> ProblemBody:
        """Return what is written; pointers begin `at` a place of the body."""
        errors = [Fault(_below(at, fault.pointer), fault.detail) for fault in self.errors]
        return answered(self.kind, self.detail, errors=errors, **self.members)


def answered(kind: ProblemType, detail: str, **members: Any) -> ProblemBody:
    """Return what is written of a problem of a kind."""
    return ProblemBody(type=kind.uri, title=kind.title, status=kind.status, detail=detail, **members)


def response(problem: Problem) -> web.Response:
    """Return the answer to a request with a problem."""
    body = msgspec.json.encode(problem.answered())
    answer = web.Response(body=body, status=problem.status, content_type=MEDIA_TYPE, headers=problem.headers)
    answer[KIND] = problem.kind.name
    return answer


def pointer(*path: str | int) -> str:
    """Return the JSON pointer of a path, as a fragment of a URI."""
    return "#" + "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _below(at: str, pointer: str) -> str:
    return f"#{at}{pointer.removeprefix('#')}"
