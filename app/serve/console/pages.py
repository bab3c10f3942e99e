"""What every page needs at hand: the API as its reader may use it, and the templates."""

import re
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from app.serve.access.roles import ANYBODY, ASKER
from app.serve.console import flash
from app.serve.console.api import ConsoleApi, JsonAnswer, OwnApi
from app.serve.console.render import Renderer

#: So many destinations are proposed in a form.
_NAMED: Final = 200
_WILD: Final = re.compile(r"[*?\[]")


class Pages:
    """Answers for the pages: each asks the API, and shows what that has said."""

    def __init__(self, web_app: web.Application, now_ms: Callable[[], int], *, read_only: bool) -> None:
        self._web_app = web_app
        self.renderer = Renderer(now_ms, read_only=read_only)

    def api(self, request: web.Request) -> ConsoleApi:
        """Return the API as this reader may use it."""
        return OwnApi(self._web_app, request)

    async def overview(self, request: web.Request) -> JsonAnswer:
        """Return what a page shows around its content: of the installation, or of the namespaces of a bound reader."""
        bound = request.get(ASKER, ANYBODY).bound
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
        **given: Any,
    ) -> web.Response:
        """Return a page of a template, with an `overview` that has been asked for already, if there is one.

        One that can stand `alone` is shown while there is no overview, too.
        """
        if overview is None:
            overview = await self.overview(request)
        return self.renderer.page(request, overview, name, live=live, alone=alone, status=status, **given)

    async def post(
        self, request: web.Request, path: str, body: dict[str, Any], back: str, done: str = ""
    ) -> web.Response:
        """Do what a form asks for, and return to a page that says what came of it."""
        answer = await self.api(request).post(path, body)
        said = answer.get("sentence") or answer.get("outcome") or done
        return flash.see_other(back, well=answer.well, sentence=answer.error or str(said) or "Done.")


def names_of(overview: JsonAnswer) -> list[str]:
    """Return destinations to propose: those with messages, or, for a bound reader, those that are allowed by name."""
    found = [row["destination"] for row in overview.get("destinations", [])]
    for one in overview.get("namespaces", []):
        found += [name for name in one.get("destinations", []) if not _WILD.search(name)]
    return list(dict.fromkeys(found))[:_NAMED]
