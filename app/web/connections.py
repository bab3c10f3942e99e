"""A bound on the web port's connections: whoever opens many, and says nothing on them, keeps nobody else out."""

import asyncio
from collections import deque
from typing import Final

from aiohttp import web

#: Browsers and scrapers need a few each, and files and brokers' connections need descriptors too (1,024 as a rule).
MOST: Final = 256
#: A request's head must be there so soon after the connection or the answer before it: aiohttp's keepalive_timeout
#: counts from there (aiohttp/web_protocol.py, RequestHandler.connection_made and start).
HEAD_S: Final = 10.0


def bound(server: web.Server) -> None:
    """Have a server end its oldest connection for each new one beyond MOST, so that health checks always get in.

    What only waits for its reader to take the answer is ended too: transports are aborted, not closed.
    """
    usual, transports = server.connection_made, deque[asyncio.Transport]()

    def made(handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        usual(handler, transport)
        transports.append(transport)
        if len(transports) > MOST:
            transports.popleft().abort()

    server.connection_made = made  # type: ignore[method-assign] # the application makes the server, and its class
