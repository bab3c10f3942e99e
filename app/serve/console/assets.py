"""The static files of the console, held in memory: few, small, and no path from a request ever reaches the disk."""

from hashlib import sha256
from importlib.resources import files
from typing import Final

from aiohttp import web

CONTENT_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
NAMES: Final = ("page.css", "page.js", "clock.svg")


class Assets:
    """Serves the static files under addresses that change with their content, so that browsers may keep them."""

    def __init__(self) -> None:
        folder = files("app.serve.console") / "static"
        self._content = {name: (folder / name).read_bytes() for name in NAMES}
        self.addresses = {name: f"/static/{name}?v={_digest(body)}" for name, body in self._content.items()}

    async def serve(self, request: web.Request) -> web.Response:
        """Answer GET /static/{name}."""
        name = request.match_info["name"]
        if name not in self._content:
            raise web.HTTPNotFound
        return web.Response(
            body=self._content[name],
            content_type=CONTENT_TYPES[name.rpartition(".")[2]],
            charset="utf-8",
            headers={"Cache-Control": "public, max-age=86400"},
        )


def _digest(body: bytes) -> str:
    return sha256(body).hexdigest()[:12]
