"""Requests to other workers: an invalid answer counts as missing, and does not fail the request."""

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from app.serve.search.filter import Filter
from app.serve.search.page import Cursor, SearchPart
from app.serve.search.peers import Missing
from app.serve.search.scan import END
from app.serve.search.search import LOCAL, Search
from app.serve.search.timeline import TimelinePart, Timelines
from app.serve.search.timeline_counts import Bucket, TimelineSpans
from app.settings.settings import Settings
from tests.tables.rows import NOW

NO_ANSWERS = [
    pytest.param(404, "", id="404"),
    pytest.param(404, '{"detail": "no"}', id="404 with a sentence"),
    pytest.param(200, "null", id="null"),
    pytest.param(200, "[]", id="list"),
    pytest.param(200, "{}", id="nothing"),
    pytest.param(200, "7", id="number"),
    pytest.param(200, '{"partitions": 1}', id="no list"),
    pytest.param(200, '{"partitions": [[1]]}', id="no numbers"),
]


class Peer:
    """Another worker: its answer at each path, and its requests."""

    def __init__(self) -> None:
        self.status, self.text = 200, ""
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        return web.Response(status=self.status, text=self.text)


@pytest.fixture
def peer() -> Peer:
    return Peer()


@pytest.fixture
async def search(peer: Peer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Search]:
    """Return a search on a worker that serves partition 0 of two; the peer serves the other one."""
    web_app = web.Application()
    web_app.add_routes([web.get("/{path:.*}", peer.answer)])
    async with TestServer(web_app) as server:
        settings = Settings.from_env({"DELAY_PARTITIONS": "2", "DELAY_DATA_DIR": str(tmp_path)})
        report = SimpleNamespace(progress=SimpleNamespace(worker=str(server.make_url("")).rstrip("/"), overdue=0))
        engine: Any = SimpleNamespace(
            settings=settings,
            reader=SimpleNamespace(reports={1: report}),
            ownership=SimpleNamespace(partitions={0: SimpleNamespace(working=True)}),
            table=SimpleNamespace(stores={0: None}),
        )
        made = Search(engine)

        async def own(*_: object, **__: object) -> SearchPart:
            return SearchPart(partitions=[0], up_to=END)

        monkeypatch.setattr(made, "own_page", own)
        monkeypatch.setattr(made, "own_count", own)
        yield made
        await made.close()


@pytest.mark.parametrize(("status", "text"), NO_ANSWERS)
async def test_a_worker_without_an_answer_is_reported_as_missing(
    search: Search, peer: Peer, monkeypatch: pytest.MonkeyPatch, status: int, text: str
) -> None:
    peer.status, peer.text = status, text
    page = await search.page(Filter(), Cursor(), 10)
    count = await search.count(Filter(), 1.0)
    timelines, spans = Timelines(search), TimelineSpans.between(NOW, NOW + 4, 1, NOW)

    async def own_part(*_: object) -> TimelinePart:
        buckets = [Bucket(from_ms=since, to_ms=until) for since, until in pairwise(spans.edges)]
        return TimelinePart(partitions=[0], buckets=buckets)

    monkeypatch.setattr(timelines, "own_part", own_part)
    timeline = await timelines.timeline(spans, {})

    assert peer.asked == [f"{LOCAL}/messages", f"{LOCAL}/count", f"{LOCAL}/timeline"]
    for found in (page, count, timeline):
        (missing,) = found.missing
        assert isinstance(missing, Missing)
        assert (missing.partitions, missing.why) == ([1], "the worker does not support this request")
        assert not found.complete


@pytest.mark.parametrize("status", [200, 503])
async def test_json_with_too_many_levels_is_not_an_answer(search: Search, peer: Peer, status: int) -> None:
    peer.status, peer.text = status, '{"error":' * 10_000
    count = await search.count(Filter(), 1.0)
    assert [missing.partitions for missing in count.missing] == [[1]]
    await search.wake_others()


@pytest.mark.parametrize(("status", "text"), NO_ANSWERS)
async def test_a_job_begins_whatever_the_other_workers_answer(
    search: Search, peer: Peer, status: int, text: str
) -> None:
    peer.status, peer.text = status, text
    await search.wake_others()
    assert peer.asked == [f"{LOCAL}/jobs"]


async def test_the_result_has_the_answer_of_a_worker(search: Search, peer: Peer) -> None:
    part = SearchPart(partitions=[1], matching=3, looked_at=5, up_to=END)
    peer.text = msgspec.json.encode(part).decode()
    count = await search.count(Filter(), 1.0)
    assert (count.matching, count.looked_at, count.complete, count.missing) == (3, 5, True, [])
