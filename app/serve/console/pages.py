"""Shared by all pages: the API with the permissions of the user, and the templates."""

import re
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from app.serve.access.caller import ANYBODY, CALLER
from app.serve.console import flash
from app.serve.console.api import ConsoleApi, JsonAnswer, OwnApi
from app.serve.console.render import Renderer

#: The maximum destinations that a form suggests.
_MAX_NAMES: Final = 200
_WILD: Final = re.compile(r"[*?\[]")


class Pages:
    """Makes the responses of pages: each page calls the API, and shows its responses."""

    def __init__(self, web_app: web.Application, now_ms: Callable[[], int], *, read_only: bool) -> None:
        self._web_app = web_app
        self.renderer = Renderer(now_ms, read_only=read_only)

    def api(self, request: web.Request) -> ConsoleApi:
        """Return the API with the permissions of the request's user."""
        return OwnApi(self._web_app, request)

    async def overview(self, request: web.Request) -> JsonAnswer:
        """Return the data around a page's content: of the installation, or of the namespaces of a bound user."""
        bound = request.get(CALLER, ANYBODY).bound
        return await self.api(request).get("/namespaces" if bound else "/overview")

    async def show(
        self,
        request: web.Request,
        name: str,
        *,
        overview: JsonAnswer | None = None,
        live: bool = False,
        alone: bool = False,
        status: int = 200,
        **variables: Any,
    ) -> web.Response:
        """Return a page of a template, with an `overview` if one has already been read.

        A page that can stand `alone` is shown even without an overview.
        """
        if overview is None:
            overview = await self.overview(request)
        return self.renderer.page(request, overview, name, live=live, alone=alone, status=status, **variables)

    async def post(
        self, request: web.Request, path: str, body: dict[str, Any], back: str, success: str = ""
    ) -> web.Response:
        """Send a form's request to the API, and redirect to a page that shows the outcome."""
        answer = await self.api(request).post(path, body)
        sentence = answer.get("sentence") or answer.get("outcome") or success
        return flash.see_other(back, success=answer.ok, sentence=answer.error or str(sentence) or "Done.")


def names_of(overview: JsonAnswer) -> list[str]:
    """Return destinations to suggest: those with messages, or the allowed names of a bound user's namespaces."""
    names = [row["destination"] for row in overview.get("destinations", [])]
    for namespace in overview.get("namespaces", []):
        names += [name for name in namespace.get("destinations", []) if not _WILD.search(name)]
    return list(dict.fromkeys(names))[:_MAX_NAMES]
