"""Puts the gate of the settings before the API and the console, and serves the sign-in page."""

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
    file = access_file(settings)
    oidc = oidc_of(settings, file)
    web_app.middlewares.append(Gate(settings.web, file, oidc, pages=True).check)
    pages = SignInPages(file, provider=oidc is not None)
    web_app.add_routes([web.get("/sign-in", pages.show)])
    if file:
        web_app.add_routes([web.get("/sign-in/password", pages.enter)])
    if oidc is not None:
        oidc.end_on_others = end_on_others
        web_app.on_cleanup.append(oidc.close)
        web_app.add_routes(
            [
                web.get("/sign-in/begin", oidc.begin),
                web.get("/sign-in/done", oidc.done),
                web.post("/sign-out", oidc.out),
                web.get("/api/v1/local/signed-out", oidc.ended),
            ]
        )


def check(process: ProcessSettings, web_settings: WebSettings) -> None:
    """Raise SignInMissing if other hosts can reach the port without signing in, unless the settings allow that."""
    if process.public and not web_settings.signs_in and web_settings.insecure != "on":
        raise SignInMissing(process.host)


class SignInPages:
    """Answers GET /sign-in and GET /sign-in/password: the ways to sign in, and the outcome of the last sign-in."""

    def __init__(self, file: AccessFile, *, provider: bool) -> None:
        """Offer passwords if `file` has any, a provider, or both."""
        templates = jinja2.Environment(
            loader=jinja2.PackageLoader("app.serve.access"), autoescape=True, trim_blocks=True
        )
        self._page = templates.get_template("sign-in.html")
        self._file, self._provider = file, provider

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /sign-in: `next` is the URL to return to, `said` selects a sentence."""
        back = urlencode({"next": local_address(request.query.get("next", "/"))})
        sentence = _SENTENCES.get(request.query.get("said", ""), "")
        text = self._page.render(
            sentence=sentence,
            query=back,
            passwords=self._file.now().has_passwords,
            provider=self._provider,
            good=sentence == _SENTENCES["out"],
        )
        return web.Response(text=text, content_type="text/html")

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /sign-in/password: return to `next`, because the gate has already checked name and password."""
        return redirect(local_address(request.query.get("next", "/")))


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

    return Oidc(settings.web, settings.people_url, settings.topics.app_id, file.now, Provider)
