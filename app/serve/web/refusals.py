"""Responses of the web port to requests that are refused before a handler runs; the front process has the same."""

from typing import Final

from aiohttp import web

from app.base.listening import bodies
from app.base.listening.bodies import Bodies
from app.base.listening.connections import ConnectionLimits
from app.base.listening.limits import HttpRefusal
from app.serve.web.problem import Problem, response

#: Browsers and scrapers need a few connections each, and files and broker connections need descriptors too. Health
#: checks always get a connection. Headers have room for the tokens and cookies of proxies.
BOUNDS: Final = ConnectionLimits(most=256, most_of_one=256, header_bytes=8_190, newest_in=True)
#: The maximum bytes of one body, and of the bodies of all requests together.
BODY_BYTES, BODIES_BYTES = 8 << 20, 32 << 20


class WebRefusals:
    """Makes problems of refusals."""

    def error(self, refusal: HttpRefusal) -> Exception:
        """Return the problem for a refusal."""
        return Problem(refusal.kind, refusal.sentence, headers=refusal.headers)

    def answer(self, refusal: HttpRefusal) -> web.Response:
        """Return the response to bytes that are not an HTTP request."""
        return response(Problem(refusal.kind, refusal.sentence, headers=refusal.headers))

    def cut_off(self, reason: str) -> None:
        """Do nothing: cut-off connections of people and scrapers are not counted."""


def bound_bodies(web_app: web.Application, together: int = BODIES_BYTES) -> None:
    """Make an application that has not started refuse compressed bodies, and bodies beyond `together` bytes in total.

    Middlewares added before see the request first, so only users with permission can use up the bytes.
    """
    room = Bodies(WebRefusals(), BODY_BYTES, together)
    web_app.middlewares.append(bodies.middleware(room))
