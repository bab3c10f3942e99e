"""Namespaces on the pages of the console, if the installation has any."""

from app.settings.quotas import Quota
from punctual.contract.rate import Rate
from tests.app.serve.console.test_pages import Client, Page, Record, client
from tests.app.serve.web.conftest import FakeState

__all__ = ["client"]


async def test_namespaces_have_a_table_with_their_quotas(client: Client, state: FakeState, record: Record) -> None:
    state.quotas = {"billing": None, "orders": Quota(3, 5_000, Rate(20.0))}
    state.report(record(0, namespaces={"orders": {"messages": 3, "bytes": 1_070}}))

    page = Page(text := await (await client.get("/destinations")).text())
    assert {"Namespaces", "billing", "3 of 3", "1,070 of 5,000", "20/s"} <= set(page.texts)
    assert 'href="/find?namespace=orders&amp;all=1"' in text
    assert 'class="warn"><th scope="row"><a href="/find?namespace=orders' in text
    options = Page(await (await client.get("/find")).text()).texts
    assert {"all", "billing", "orders"} <= set(options)


async def test_without_namespaces_the_pages_do_not_mention_them(
    client: Client, state: FakeState, record: Record
) -> None:
    state.report(record(0))
    for path in ("/destinations", "/find"):
        assert "amespace" not in await (await client.get(path)).text()
