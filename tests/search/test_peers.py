"""Asking other workers: one that answers what is of no use is missing, and ends nobody's question."""

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from app.search.peers import Peers


@pytest.mark.parametrize(("status", "body"), [(404, "no"), (200, "[]"), (200, "{}"), (200, '{"partitions": 1}')])
async def test_an_answer_of_no_use_is_missing(status: int, body: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    web_app = web.Application()
    web_app.router.add_get("/api/local/x", answer)
    async with TestServer(web_app) as server:
        peers = peers_of({1: str(server.make_url("")).rstrip("/")})
        try:
            found, missing = await peers.ask_all("/api/local/x", {}, [0], 2)
        finally:
            await peers.close()

    assert found == []
    assert [(one.partitions, one.why) for one in missing] == [([1], "it has no answer to this")]


def peers_of(owners: dict[int, str]) -> Any:
    return Peers(lambda: owners, "http://self")
