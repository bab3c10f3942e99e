"""The page where people sign in: the ways that there are, and what has come of the last one."""

from typing import Final
from urllib.parse import urlencode

import jinja2
from aiohttp import web

from app.serve.access.flow import local
from app.serve.access.refusals import see

#: What may be said, by the words that addresses have: nothing of an address is ever shown.
_SAID: Final = {
    "out": "You have signed out.",
    "again": "That login was started elsewhere, is already complete, or took too long. Sign in again.",
    "refused": "The provider refused the login.",
    "provider": "The provider did not respond as expected. See the worker's log.",
    "no-role": "You are signed in, but have no role here. Ask your administrator for one (DELAY_WEB_OIDC_ROLES).",
}


class Pages:
    """Answers GET /sign-in and GET /sign-in/password."""

    def __init__(self, *, passwords: bool, provider: bool) -> None:
        """Offer these ways."""
        templates = jinja2.Environment(
            loader=jinja2.PackageLoader("app.serve.access"), autoescape=True, trim_blocks=True
        )
        self._page = templates.get_template("sign-in.html")
        self._passwords, self._provider = passwords, provider

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /sign-in: `next` is where to go on, `said` what has happened."""
        back = urlencode({"next": local(request.query.get("next", "/"))})
        said = _SAID.get(request.query.get("said", ""), "")
        text = self._page.render(
            said=said, query=back, passwords=self._passwords, provider=self._provider, good=said == _SAID["out"]
        )
        return web.Response(text=text, content_type="text/html")

    async def come_in(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /sign-in/password: the gate has asked for a name and a password already."""
        return see(local(request.query.get("next", "/")))
