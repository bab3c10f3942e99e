"""How the web port answers what it refuses before a handler sees it; the front of several processes does the same."""

from typing import Final

from aiohttp import web

from app.base.listening import bodies
from app.base.listening.bodies import Bodies
from app.base.listening.connections import ConnectionLimits
from app.base.listening.limits import HttpRefusal
from app.serve.web.problem import Problem, response

#: Browsers and scrapers need a few connections each, and files and brokers' connections need descriptors too. Health
#: checks always get in. Headers carry tokens and cookies of proxies.
BOUNDS: Final = ConnectionLimits(most=256, most_of_one=256, header_bytes=8_190, newest_in=True)
#: One body, and the bodies of all requests at once.
BODY_BYTES, BODIES_BYTES = 8 << 20, 32 << 20


class WebRefusals:
    """Answers with problems."""

    def error(self, refusal: HttpRefusal) -> Exception:
        """Return the problem that a refusal is."""
        return Problem(refusal.kind, refusal.sentence, headers=refusal.headers)

    def answer(self, refusal: HttpRefusal) -> web.Response:
        """Return the answer to bytes that are not an HTTP request."""
        return response(Problem(refusal.kind, refusal.sentence, headers=refusal.headers))

    def cut_off(self, reason: str) -> None:
        """Count nothing: these connections are for people and scrapers."""


def bound_bodies(web_app: web.Application, together: int = BODIES_BYTES) -> None:
    """Have an application that has not started yet take no packed bodies, and others while they have room.

    Middlewares that were added before see the request first: only those who may act can take the room.
    """
    room = Bodies(WebRefusals(), BODY_BYTES, together)
    web_app.middlewares.append(bodies.middleware(room))
