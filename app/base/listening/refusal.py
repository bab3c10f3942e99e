"""What a server refuses before its handlers see it, and how it answers and counts that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """Why a request is refused: a problem's type (docs/reference/problems.md), its status, and a sentence."""

    kind: str
    status: int
    sentence: str
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpRefusals(Protocol):
    """How one server answers and counts refusals."""

    def error(self, refusal: HttpRefusal) -> Exception:
        """Return the exception that answers a request with a refusal when a middleware raises it."""

    def answer(self, refusal: HttpRefusal) -> web.Response:
        """Return the answer to bytes that are not an HTTP request, and count the refusal."""

    def cut_off(self, reason: str) -> None:
        """Count a connection that is ended: a `head`, `body` or `answer` is too slow; there are too `many`.

        `address` means too many of one address.
        """
