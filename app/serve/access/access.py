"""Puts the gate of the settings before the API and the console, and serves the sign-in page."""

import secrets
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlencode

import jinja2
from aiohttp import web

from app.base.errors import SettingInvalid, SignInMissing
from app.serve.access.access_file import AccessFile
from app.serve.access.gate import Gate
from app.serve.access.oidc import Oidc
from app.serve.access.sessions import signing_key
from app.serve.access.sign_in import local_address, redirect
from app.settings.process import ProcessSettings
from app.settings.settings import Settings
from app.settings.web import WebSettings
from punctual.installing import install_command

SETTING: Final = "DELAY_WEB_USERS_FILE"
EndSession = Callable[[str], Awaitable[None]]
#: The sentences of the page, by the parameter `said` in its URL. Text from a URL is never shown.
_SENTENCES: Final = {
    "out": "You have signed out.",
    "again": "That login was started elsewhere, is already complete, or took too long. Sign in again.",
    "refused": "The provider refused the login.",
    "provider": "The provider did not respond as expected. See the worker's log.",
    "no-role": "You have no role here. Ask your administrator for one (groups in the access file).",
}


def register(web_app: web.Application, settings: Settings, end_on_others: EndSession) -> None:
    """Add the gate to a web application that has not started, and the pages and routes for signing in.

    `end_on_others` ends a session on the other workers. Raises SettingInvalid.
    """
    file, oidc = add_gate(web_app, settings, pages=True)
    _add_pages(web_app, file, provider=oidc is not None)
    if oidc is not None:
        oidc.end_on_others = end_on_others
        router = web_app.router
        router.add_get("/sign-in/begin", oidc.begin)
        router.add_get("/sign-in/done", oidc.done)
        router.add_post("/sign-out", oidc.out)
        router.add_get("/api/v1/local/signed-out", oidc.ended)


def add_gate(web_app: web.Application, settings: Settings, *, pages: bool) -> tuple[AccessFile, Oidc | None]:
    """Add the gate of the settings; return the access file and the provider by which the gate identifies callers.

    With `pages`, people sign in on pages. Raises SettingInvalid.
    """
    file = access_file(settings)
    oidc = oidc_of(settings, file)
    if oidc is not None:
        web_app.on_cleanup.append(oidc.close)
    web_app.middlewares.append(Gate(settings.web, file, oidc, pages=pages).check)
    return file, oidc


def check(process: ProcessSettings, web_settings: WebSettings) -> None:
    """Raise SignInMissing if other hosts can reach the port without signing in, unless the settings allow that."""
    if process.public and not web_settings.signs_in and web_settings.insecure != "on":
        raise SignInMissing(process.host)


def _add_pages(web_app: web.Application, file: AccessFile, *, provider: bool) -> None:
    """Add the pages on which people sign in with a password, if `file` has any, with a `provider`, or with both."""
    templates = jinja2.Environment(loader=jinja2.PackageLoader("app.serve.access"), autoescape=True, trim_blocks=True)
    page = templates.get_template("sign-in.html")

    async def show(request: web.Request) -> web.Response:
        """Answer GET /sign-in: `next` is the URL to return to, `said` selects a sentence."""
        sentence = _SENTENCES.get(request.query.get("said", ""), "")
        text = page.render(
            sentence=sentence,
            query=urlencode({"next": local_address(request.query.get("next", "/"))}),
            passwords=file.now().has_passwords,
            provider=provider,
            good=sentence == _SENTENCES["out"],
        )
        return web.Response(text=text, content_type="text/html")

    async def enter(request: web.Request) -> web.StreamResponse:
        """Answer GET /sign-in/password: return to `next`, because the gate has already checked name and password."""
        return redirect(local_address(request.query.get("next", "/")))

    web_app.add_routes([web.get("/sign-in", show)])
    if file:
        web_app.add_routes([web.get("/sign-in/password", enter)])


def access_file(settings: Settings) -> AccessFile:
    """Return the access file of the settings. Raises SettingInvalid."""
    path = settings.web.users_file
    try:
        return AccessFile(SETTING, path, settings.topics.namespaces.names)
    except ValueError as error:
        raise SettingInvalid(SETTING, repr(path), str(error)) from error


def oidc_of(settings: Settings, file: AccessFile) -> Oidc | None:
    """Return the sign-in with the provider in an access file, None without one. Raises SettingInvalid."""
    if file.last.provider is None:
        return None
    if find_spec("authlib") is None:
        why = f"it needs the extra 'oidc': {install_command('punctual-kafka-worker[oidc]')}"
        raise SettingInvalid(file.setting, repr(file.path), why)
    from app.serve.access.provider import Provider  # noqa: PLC0415 - its libraries are there only with the extra

    secret = settings.web.secret
    key = signing_key(secret, settings.topics.app_id) if secret else secrets.token_bytes(32)
    return Oidc(settings.people_url, key, file.now, Provider)
