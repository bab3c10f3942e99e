"""What every page needs at hand: the API as its reader may use it, and the templates."""

from typing import Any

from aiohttp import web

from app.console import flash, forms
from app.console.api import Answer, Api, OwnApi
from app.console.render import Renderer


class Desk:
    """Answers for the pages: each asks the API, and shows what that has said."""

    def __init__(self, web_app: web.Application, *, read_only: bool) -> None:
        self._web_app = web_app
        self.renderer = Renderer(read_only=read_only)

    def api(self, request: web.Request) -> Api:
        """Return the API as this reader may use it."""
        return OwnApi(self._web_app, request)

    async def show(
        self,
        request: web.Request,
        name: str,
        *,
        overview: Answer | None = None,
        live: bool = False,
        status: int = 200,
        **given: Any,
    ) -> web.Response:
        """Return a page of a template, with an `overview` that has been asked for already, if there is one."""
        if overview is None:
            overview = await self.api(request).get("/overview")
        return self.renderer.page(request, overview, name, live=live, status=status, **given)

    async def form(self, request: web.Request) -> dict[str, str]:
        """Return what a form says."""
        return await forms.form(request)

    async def act(
        self, request: web.Request, path: str, body: dict[str, Any], back: str, done: str = ""
    ) -> web.Response:
        """Do what a form asks for, and return to a page that says what came of it."""
        answer = await self.api(request).post(path, body)
        said = answer.get("sentence") or answer.get("outcome") or done
        return flash.see_other(back, well=answer.well, sentence=answer.error or str(said) or "Done.")
