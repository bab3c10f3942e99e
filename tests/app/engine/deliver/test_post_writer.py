"""Signed headers distinguish deliveries from failure callbacks, and the input decides the allowed URLs."""

import pytest

from app.base.clock import Clock
from app.engine.deliver.post_writer import PostWriter
from app.settings.settings import Settings
from tables import Entry, keys

URL = "https://hooks.example/failed"
SETTINGS = Settings.from_env(
    {
        "DELAY_INPUTS": "orders-delays=native",
        "DELAY_HTTP_DESTINATIONS": "https://hooks.example/*",
        "DELAY_CALLBACKS": f"orders-delays:{URL}",
    }
)


def entry(source: str, *, url: str | None) -> Entry:
    return Entry("a", URL if url is None else "", None, b"{}", [], source, url=url)


def writer() -> PostWriter:
    return PostWriter(SETTINGS.topics, SETTINGS.destinations, Clock(), "cluster")


@pytest.mark.parametrize(("url", "begins"), [(URL, "callback_"), (None, "msg_")])
async def test_a_signed_id_tells_deliveries_from_callbacks(url: str | None, begins: str) -> None:
    row, posts = entry("orders-delays-0-1", url=url), writer()
    headers = dict(posts.post(keys.row_key(1, 1, 1), row, posts.allowed(row)).headers)

    assert headers["webhook-id"].startswith(begins)


def test_a_callback_goes_where_its_input_allows_it_and_nowhere_else() -> None:
    assert writer().allowed(entry("orders-delays-0-1", url=URL))
    with pytest.raises(ValueError, match="not on the list of allowed URLs"):
        writer().allowed(entry("delay-requests-0-1", url=URL))
