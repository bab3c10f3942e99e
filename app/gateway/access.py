"""Puts before a gateway's routes what finds out who asks, and what bounds how much comes."""

from aiohttp import web

from app.errors import SettingInvalid
from app.gateway import bodies, gate
from app.gateway.bodies import Bodies
from app.gateway.errors import TokensMissing
from app.gateway.gate import Gate
from app.gateway.parts import Parts
from app.gateway.refusals import counted
from app.gateway.tokens_file import SETTING, TokensFile
from app.settings import Settings


def register(web_app: web.Application, parts: Parts) -> None:
    """Have an application that has not started yet ask for tokens, and take bodies as far as there is room.

    Raises SettingInvalid, and TokensMissing where others reach the port and nobody would have to show one.
    """
    settings = parts.settings
    tokens = tokens_of(settings)
    if settings.public and not tokens:
        raise TokensMissing(settings.host)
    web_app.middlewares.append(counted)
    metrics_open = not tokens or settings.web_metrics == "open"
    web_app.middlewares.append(gate.middleware(Gate(tokens, metrics_open=metrics_open)))
    web_app.middlewares.append(bodies.middleware(Bodies(settings.gateway_max_body)))


def tokens_of(settings: Settings) -> TokensFile:
    """Return the file of tokens that the settings name. Raises SettingInvalid."""
    file = settings.gateway_tokens_file
    try:
        return TokensFile(file)
    except ValueError as error:
        raise SettingInvalid(SETTING, repr(file), str(error)) from error
