"""What an address may say: what makes no sense is answered in a sentence."""

import pytest

from tests.app.serve.access.conftest import served
from tests.app.serve.access.world import World


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("messages?limit=0.5", "limit='0.5' must be a whole number from 1 to 1000"),
        ("messages?limit=0", "limit='0' must be"),
        ("messages?limit=1001", "limit='1001' must be"),
        ("dead-letters?limit=0.5", "limit='0.5' must be"),
        ("messages?cursor=00.999999999999999999999999999999", "Use `next` of a response"),
        ("messages?cursor=00.-2", "Use `next` of a response"),
    ],
)
async def test_invalid_parameters_are_answered_in_a_sentence(
    asked: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    World(monkeypatch)
    async with served(real_below="/api/v1/") as client, client.get(f"/api/v1/{asked}") as answer:
        assert (answer.status, says in (await answer.json()).get("detail", "")) == (400, True)
