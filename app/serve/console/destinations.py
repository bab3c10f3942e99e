"""The pages of destinations: the pending messages of each, and its pause and rate limit."""

from typing import Any, Final

from aiohttp import web

from app.serve.console import forms
from app.serve.console.pages import PageGroup

# More rows are of no use to a reader and cost the worker milliseconds; the JSON has all rows.
MAX_ROWS: Final = 200
ORDERS: Final = ("pending", "name")


class DestinationPages(PageGroup):
    """Answers /destinations and the paths below."""

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /destinations; `destination` is a part of their names, `sort` is "pending" or "name"."""
        overview = await self._pages.api(request).get("/overview")
        destinations: list[dict[str, Any]] = overview.get("destinations", [])
        search = request.query.get("destination", "")
        order = request.query.get("sort", "")
        rows = [row for row in destinations if search.lower() in row["destination"].lower()]
        if order == ORDERS[1]:
            rows.sort(key=lambda row: row["destination"])
        return await self._pages.show(
            request,
            "destinations.html",
            overview=overview,
            live=True,
            rows=rows[:MAX_ROWS],
            more=max(0, len(rows) - MAX_ROWS),
            largest=max((row["pending"] for row in destinations), default=0),
            search=search,
            order=order if order in ORDERS else ORDERS[0],
        )

    async def show_one(self, request: web.Request) -> web.Response:
        """Answer GET /destinations/{name} with the state of a destination, and the forms that act on it."""
        name = request.match_info["name"]
        overview = await self._pages.api(request).get("/overview")
        rows = [row for row in overview.get("destinations", []) if row["destination"] == name]
        row = rows[0] if rows else None
        return await self._pages.show(request, "destination.html", overview=overview, live=True, target=name, row=row)

    @forms.handler
    async def pause(self, request: web.Request, fields: dict[str, str]) -> web.Response:
        """Answer POST /destinations/{name}/pause: pause the destination."""
        body: dict[str, Any] = {"reason": fields.get("reason", "").strip()}
        if fields.get("until", "").strip():
            body["until"] = forms.moment_ms(fields["until"])
        return await self._pages.post(request, body)

    @forms.handler
    async def resume(self, request: web.Request, _fields: dict[str, str]) -> web.Response:
        """Answer POST /destinations/{name}/resume: resume the destination."""
        return await self._pages.post(request, {})

    @forms.handler
    async def rate(self, request: web.Request, fields: dict[str, str]) -> web.Response:
        """Answer POST /destinations/{name}/rate: set the rate limit, or return to the limit in the settings."""
        if fields.get("do") == "take-back":
            return await self._pages.post(request, {"rate": None})
        per_s, burst = fields.get("per_s", "").strip(), fields.get("burst", "").strip()
        try:
            float(per_s), int(burst or 0)  # the text is sent as it was typed, so that no digit is lost
        except ValueError:
            raise ValueError("the rate limit is not a number. Enter messages per second, such as 20") from None
        return await self._pages.post(request, {"rate": f"{per_s}/s burst {burst}" if burst else f"{per_s}/s"})
