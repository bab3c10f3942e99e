"""Every id has a URL, and is read from it unchanged."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from app.serve.web import ids
from punctual.cli.api import message_at

ODD = (
    *("-", ".", "..", "count", "...", "a/..", "./a", "/", "//", "a/b", "a//b", "cancel", "x/cancel", "-/cancel"),
    *("\n", "a\nb", "a\r\nb", "\r", "\x00", "\x7f", "\x85", "\u2028", "\u202e", " ", " a ", "\t"),
    *("{", "}", "{id}", "{0}", "%", "%2F", "%0A", "%25", "a%0Ab", "?", "a?id=b", "#", "+", "&", ";", ":", "@", "\\"),
    *('"', "'", "<b>", "é", "e\u0301", "\U0001f600", "\U0001f600" * 64, "a" * 256, "id", "messages", "null", "_", "~"),
)


def _fits(text: str) -> bool:
    try:
        return len(text.encode()) <= 256
    except UnicodeEncodeError:
        return False


IDS = st.text(min_size=1).filter(_fits) | st.text(st.sampled_from("./%-{}\n\r a"), min_size=1)


@pytest.fixture(scope="module")
def resource() -> web.Resource:
    return web.UrlDispatcher().add_resource(f"/messages/{ids.PLACE}/cancel")


def read(resource: web.Resource, address: str) -> str:
    """Return the id in an address, as aiohttp takes it apart (web_urldispatcher.py, Resource.resolve)."""
    url = URL(address, encoded=True)
    found = resource._match(url.path_safe)
    assert found is not None, address
    return url.query.get("id", found["id"]) if found["id"] == "-" else found["id"]


@given(IDS)
def test_an_id_survives_a_round_trip_in_a_url(resource: web.Resource, id_: str) -> None:
    assert read(resource, ids.address("/messages", id_, "/cancel")) == id_
    path, query = message_at(id_, "/cancel")
    assert read(resource, str(URL(path, encoded=True).update_query({k: str(v) for k, v in query.items()}))) == id_


@given(IDS)
def test_proxies_have_no_reason_to_change_a_url(id_: str) -> None:
    path = ids.address("/messages", id_).partition("?")[0]

    assert not set(path.split("/")) & {".", ".."}


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async def show(request: web.Request) -> web.Response:
        return web.json_response({"id": ids.id_in(request)})

    async def count(_: web.Request) -> web.Response:
        return web.json_response({"id": None})

    web_app = web.Application()
    web_app.add_routes(
        [
            web.get("/messages/count", count),
            web.get(f"/messages/{ids.PLACE}", show),
            web.post(f"/messages/{ids.PLACE}/cancel", show),
        ]
    )
    server = TestServer(web_app)
    await server.start_server()
    yield server
    await server.close()


async def test_ids_survive_http(server: TestServer) -> None:
    base = str(server.make_url("")).rstrip("/")
    async with aiohttp.ClientSession() as session:
        for id_ in ODD:
            url = URL(base + ids.address("/messages", id_), encoded=True)
            async with session.get(url) as answer:
                assert (await answer.json())["id"] == id_, id_
            url = URL(base + ids.address("/messages", id_, "/cancel"), encoded=True)
            async with session.post(url) as answer:
                assert (await answer.json())["id"] == id_, id_
