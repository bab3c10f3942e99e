"""The user of an action, and problems for the errors of actions."""

import contextlib
from collections.abc import Iterator
from typing import Final

from aiohttp import web

from app.serve.access.caller import CALLER
from app.serve.actions.actions import Actor, NotThere
from app.serve.actions.audit import NotAudited
from app.serve.actions.commands import NotSent
from app.serve.actions.namespace_bounds import OutsideNamespaces
from app.serve.dead_letters.dead_letters import Unreadable
from app.serve.search.peers import PeerSilent
from app.serve.search.scans import ScanFailed
from app.serve.web.problem import RETRY_AFTER, Problem
from punctual.contract.request import Refusal

_SENTENCE: Final = 1_000


def actor_of(request: web.Request) -> Actor:
    """Return the user of a request, whom the gate (app/serve/access) has checked."""
    caller = request[CALLER]
    return Actor(caller.name, caller.role, caller.bound)


@contextlib.contextmanager
def errors_as_problems() -> Iterator[None]:
    """Turn the errors of actions into problems."""
    try:
        yield
    except NotThere as error:
        raise Problem("unknown-destination", str(error)) from error
    except OutsideNamespaces as error:
        raise Problem("forbidden", str(error)) from error
    except Refusal as refusal:
        raise Problem(refusal.reason.value, refusal.sentence) from refusal
    except ValueError as error:
        raise Problem("invalid-parameter", shortened(str(error))) from error
    except ScanFailed as error:
        raise Problem("busy", str(error), headers=RETRY_AFTER) from error
    except PeerSilent as error:
        raise Problem("unreachable", str(error), headers=RETRY_AFTER) from error
    except (NotAudited, NotSent, Unreadable) as error:
        raise Problem("kafka-unavailable", str(error)) from error


def shortened(sentence: str) -> str:
    """Return a sentence, shortened, because it may quote a body of up to 8 MiB."""
    return sentence if len(sentence) <= _SENTENCE else f"{sentence[:_SENTENCE]}…"
