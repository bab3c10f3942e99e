"""What every page needs at hand: the API as its reader may use it, and the templates."""

import asyncio
from typing import Any, Final

from aiohttp import web

from app.console import flash, forms
from app.console.api import Answer, Api, OwnApi
from app.console.render import Renderer

_STRANGER: Final = (
    "this form came from a page of another site, and nothing was done; open the page here and send it again"
)


class Desk:
    """Answers for the pages: each asks the API, and shows what that has said."""

    def __init__(self, web_app: web.Application) -> None:
        self._web_app = web_app
        self.renderer = Renderer()

    def api(self, request: web.Request) -> Api:
        """Return the API as this reader may use it."""
        return OwnApi(self._web_app, request)

    async def show(
        self, request: web.Request, name: str, *, live: bool = False, status: int = 200, **given: Any
    ) -> web.Response:
        """Return a page of a template."""
        overview = await self.api(request).get("/overview")
        return self.renderer.page(request, overview, name, live=live, status=status, **given)

    async def both(self, request: web.Request, path: str, query: dict[str, str] | None = None) -> Answer:
        """Return what the API has at a path; it must not be asked while this worker is not ready."""
        return await self.api(request).get(path, query)

    async def form(self, request: web.Request) -> dict[str, str]:
        """Return what a form says; refuse one that another site's page has sent."""
        if not forms.own_page(request):
            raise web.HTTPForbidden(text=_STRANGER)
        return await forms.form(request)

    async def act(
        self, request: web.Request, path: str, body: dict[str, Any], back: str, done: str = ""
    ) -> web.Response:
        """Do what a form asks for, and return to a page that says what came of it."""
        answer = await self.api(request).post(path, body)
        said = answer.get("sentence") or answer.get("outcome") or done
        return flash.see_other(back, well=well(answer), sentence=answer.error or str(said) or "Done.")

    async def all_of(self, request: web.Request, *paths: str) -> list[Answer]:
        """Return what the API has at several paths, asked at once."""
        api = self.api(request)
        return list(await asyncio.gather(*(api.get(path) for path in paths)))


#: Outcomes that are not what was asked for.
_IN_VAIN: Final = ("conflict", "unknown", "stale", "refused", "failed", "rejected")


def well(answer: Answer) -> bool:
    """Whether what was asked for has happened, or is on its way."""
    return answer.well and answer.get("outcome") not in _IN_VAIN
