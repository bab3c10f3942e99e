"""Puts the gate before the API and the console, by the settings, and serves the page where people sign in."""

import os
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlencode

import jinja2
from aiohttp import web

from app.base.errors import SettingInvalid, SignInMissing
from app.serve.access.basic import Basic
from app.serve.access.claims import RoleRules
from app.serve.access.gate import Gate, middleware
from app.serve.access.oidc import Oidc
from app.serve.access.sign_in import local_address, redirect
from app.serve.access.users import UsersFile
from app.settings.settings import Settings
from punctual.installing import install_command

Tell = Callable[[str], Awaitable[None]]
#: The sentences of the page, by the value of `said` in its address. No text of an address is ever shown.
_SENTENCES: Final = {
    "out": "You have signed out.",
    "again": "That login was started elsewhere, is already complete, or took too long. Sign in again.",
    "refused": "The provider refused the login.",
    "provider": "The provider did not respond as expected. See the worker's log.",
    "no-role": "You are signed in, but have no role here. Ask your administrator for one (DELAY_WEB_OIDC_ROLES).",
}


def register(web_app: web.Application, settings: Settings, tell_others: Tell) -> None:
    """Have a web application that has not started yet ask who comes, and add where people sign in.

    `tell_others` tells the other workers of a session that has ended. Raises SettingInvalid.
    """
    basic, oidc = _basic(settings), _oidc(settings)
    web_app.middlewares.append(middleware(Gate(settings, basic, oidc)))
    pages = SignInPages(passwords=basic is not None, provider=oidc is not None)
    web_app.add_routes([web.get("/sign-in", pages.show)])
    if basic is not None:
        web_app.add_routes([web.get("/sign-in/password", pages.enter)])
    if oidc is not None:
        oidc.tell_others = tell_others
        web_app.on_cleanup.append(oidc.close)
        web_app.add_routes(
            [
                web.get("/sign-in/begin", oidc.begin),
                web.get("/sign-in/done", oidc.done),
                web.post("/sign-out", oidc.out),
                web.get("/api/v1/local/signed-out", oidc.ended),
            ]
        )


def check(settings: Settings) -> None:
    """See that nobody gets in without a name where others reach the port. Raises SignInMissing."""
    if settings.public and not settings.signs_in and settings.web_insecure != "on":
        raise SignInMissing(settings.host)


class SignInPages:
    """Answers GET /sign-in and GET /sign-in/password: the ways to sign in, and what has come of the last one."""

    def __init__(self, *, passwords: bool, provider: bool) -> None:
        """Offer these ways."""
        templates = jinja2.Environment(
            loader=jinja2.PackageLoader("app.serve.access"), autoescape=True, trim_blocks=True
        )
        self._page = templates.get_template("sign-in.html")
        self._passwords, self._provider = passwords, provider

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /sign-in: `next` is where to go on, `said` what has happened."""
        back = urlencode({"next": local_address(request.query.get("next", "/"))})
        sentence = _SENTENCES.get(request.query.get("said", ""), "")
        text = self._page.render(
            said=sentence,
            query=back,
            passwords=self._passwords,
            provider=self._provider,
            good=sentence == _SENTENCES["out"],
        )
        return web.Response(text=text, content_type="text/html")

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /sign-in/password: the gate has asked for a name and a password already."""
        return redirect(local_address(request.query.get("next", "/")))


def _basic(settings: Settings) -> Basic | None:
    try:
        users = UsersFile(settings.web_users_file, settings.namespaces.names)
    except ValueError as error:
        raise SettingInvalid("DELAY_WEB_USERS_FILE", repr(settings.web_users_file), str(error)) from error
    return Basic(users) if settings.web_users_file else None


def _oidc(settings: Settings) -> Oidc | None:
    if not settings.web_oidc_issuer:
        return None
    if find_spec("authlib") is None:
        why = f"it needs the extra 'oidc': {install_command('punctual-kafka-worker[oidc]')}"
        raise SettingInvalid("DELAY_WEB_OIDC_ISSUER", settings.web_oidc_issuer, why)
    if not settings.web_oidc_client_id:
        raise SettingInvalid("DELAY_WEB_OIDC_CLIENT_ID", "''", "DELAY_WEB_OIDC_ISSUER also needs a client ID")
    file = settings.web_oidc_client_secret_file
    if file and not os.access(file, os.R_OK):
        why = "there is no such file, or it cannot be read"
        raise SettingInvalid("DELAY_WEB_OIDC_CLIENT_SECRET_FILE", repr(file), why)
    try:
        rules = RoleRules.parse(settings.web_oidc_roles, settings.namespaces.names)
    except ValueError as error:
        raise SettingInvalid("DELAY_WEB_OIDC_ROLES", repr(settings.web_oidc_roles), str(error)) from error
    from app.serve.access.provider import Provider  # noqa: PLC0415 - its libraries are there only with the extra

    scopes = " ".join(settings.web_oidc_scopes)
    provider = Provider(settings.web_oidc_issuer, settings.web_oidc_client_id, file, scopes)
    return Oidc(settings, rules, provider)
