"""The response of workers and gateways to an HTTP request that fails: a problem (RFC 9457)."""

import functools
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from app.serve.web.problem_types import OF_STATUS, PATH, TYPES
from punctual.contract.request import Refusal

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
#: The header of a response whose cause is usually over soon.
RETRY_AFTER: Final = {"Retry-After": str(TYPES["not-ready"].retry_after_s)}
#: The end of the sentence about a URL that the API does not have.
SEE_REFERENCE: Final = "See the HTTP API reference for the available endpoints"
#: The response key for the name of the problem's type.
KIND: Final = web.ResponseKey("kind", str)
_SENTENCE: Final = 1_000

Routes = TypeVar("Routes")


class Fault(msgspec.Struct, frozen=True):
    """An error at one place of the body; `pointer` is a JSON pointer as a URI fragment (RFC 6901)."""

    pointer: str
    detail: str


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The members that a gateway's problems have (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[Fault] = []
    id: str | None = None
    outcome: str | None = None
    source: str | None = None
    ended: str | None = None
    event: dict[str, Any] | None = None


class Problem(Exception):
    """The reason why a request fails; `kind` is a name in `problem_types.TYPES`, `detail` a sentence."""

    def __init__(
        self,
        kind: str,
        detail: str,
        errors: Iterable[Fault] = (),
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        """Make a problem with errors in the body, `headers` of the response, and more `members` of its body.

        Long texts are shortened, because they may quote a body of up to 8 MiB.
        """
        self.kind, self.detail, self.members = TYPES[kind], _shortened(detail), members
        super().__init__(self.detail)
        self.errors = [Fault(_shortened(fault.pointer), _shortened(fault.detail)) for fault in errors]
        wait_s = self.kind.retry_after_s
        self.headers = ({"Retry-After": str(wait_s)} if wait_s else {}) | dict(headers or {})

    @property
    def status(self) -> int:
        """The HTTP status of the response."""
        return self.kind.status

    def body(self, at: str = "") -> dict[str, Any]:
        """Return the members of the problem; `at` is the position of its part of the body, put before all pointers."""
        kind = self.kind
        body = {"type": kind.type, "title": kind.title, "status": kind.status, "detail": self.detail}
        errors = [Fault(f"#{at}{fault.pointer.removeprefix('#')}", fault.detail) for fault in self.errors]
        return body | ({"errors": errors} if errors else {}) | self.members


class TypedProblem(Problem):
    """A problem that callers catch: each subclass has the problems of one type, which are made from a sentence."""

    type_name: ClassVar[str]

    def __init__(self, sentence: str) -> None:
        super().__init__(self.type_name, sentence)


def of_refusal(refusal: Refusal) -> Problem:
    """Return the problem for the refusal of a request by the contract or a policy."""
    return Problem(refusal.reason.value, refusal.sentence)


def _shortened(text: str) -> str:
    return text if len(text) <= _SENTENCE else f"{text[:_SENTENCE]}…"


def checked(
    handler: Callable[[Routes, web.Request], Coroutine[Any, Any, web.StreamResponse]],
) -> Callable[[Routes, web.Request], Coroutine[Any, Any, web.StreamResponse]]:
    """Return a handler whose ValueErrors are problems, because they are about parameters and fields."""

    @functools.wraps(handler)
    async def answer(routes: Routes, request: web.Request) -> web.StreamResponse:
        try:
            return await handler(routes, request)
        except ValueError as error:
            raise Problem("invalid-parameter", str(error)) from error

    return answer


def response(problem: Problem) -> web.Response:
    """Return the response with a problem."""
    body = msgspec.json.encode(problem.body())
    answer = web.Response(body=body, status=problem.status, content_type=MEDIA_TYPE, headers=problem.headers)
    answer[KIND] = problem.kind.name
    return answer


async def meaning(request: web.Request) -> web.Response:
    """Answer GET /problems/{name} with the meaning of a problem type."""
    name = request.match_info["name"]
    kind = TYPES.get(name)
    if kind is None:
        raise Problem("not-found", f"There is no type {name[:64]!r}. See docs/reference/problems.md.")
    return web.Response(body=msgspec.json.encode(kind), content_type="application/json")


def middleware(
    answer: Callable[[web.Request, Problem], web.Response],
    covers: Callable[[web.Request], bool],
    see: str,
    server: str,
) -> Middleware:
    """Return a middleware that turns errors of handlers into responses with `answer`.

    Errors that are not problems are turned only for requests that it `covers`; `see` and `server` are for sentences.
    """

    @web.middleware
    async def turn(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Problem as error:
            problem = error
        except Refusal as error:
            problem = of_refusal(error)
        except web.HTTPException as error:
            if error.status < web.HTTPBadRequest.status_code or not covers(request):
                raise
            kind = OF_STATUS.get(error.status, OF_STATUS[web.HTTPBadRequest.status_code])
            headers = {name: value for name, value in error.headers.items() if name == "Allow"}
            problem = Problem(kind.name, f"{request.method} {request.path}: {error.reason}. {see}", headers=headers)
        except ConnectionError:  # the client is gone
            raise
        except Exception:
            if not covers(request):
                raise
            log.exception("%s %s has failed", request.method, request.path)
            problem = Problem("internal", f"{server} failed. See its log")
        return answer(request, problem)

    return turn


def _is_api(request: web.Request) -> bool:
    return request.path.startswith(("/api/", PATH))


def _answer(request: web.Request, problem: Problem) -> web.Response:
    if _is_api(request):
        return response(problem)
    text = f"{problem.detail[:1].upper()}{problem.detail[1:].removesuffix('.')}.\n"
    return web.Response(text=text, status=problem.status, headers=problem.headers)


#: Turns errors of a worker's handlers into responses: problems below /api/ and /problems/, sentences elsewhere.
problems: Final = middleware(_answer, _is_api, SEE_REFERENCE, "this worker")


def pointer(*path: str | int) -> str:
    """Return the JSON pointer of a path, as a fragment of a URI."""
    return "#" + "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
