"""The fate of a request that was refused for a quota by one worker and had been accepted by another."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.evidence import Evidence, Told
from tests.simulation.log import Sent

SOURCE = "orders-delays-1-0"
#: The worker that refused the request for good, and the worker whose life was broken off.
OWNER, LOST = Sent("owner", 0, 0, 1.0), Sent("lost", 0, 0, 1.0)


class Seen(Evidence):
    """Evidence of one request: its events and their senders, and whether its row was kept."""

    def __init__(self, *told: tuple[str, Sent], exact: bool = False, kept: bool = False) -> None:
        self.told = [Told({"event": event, "source": SOURCE, "reason": "quota"}, sent) for event, sent in told]
        self.events, self.exact = [one.event for one in self.told], exact
        world: Any = SimpleNamespace(home=lambda _: 0)
        ask: Any = None
        self.world, self.asks, self._kept = world, {SOURCE: ask}, {SOURCE} if kept else set[str]()

    def broken_off(self, sent: Sent, number: int) -> tuple[str, float, int] | None:
        return (sent.worker, 0.0, number) if sent is LOST else None

    def _kept_rows(self) -> set[str]:
        return self._kept


@pytest.mark.parametrize(
    "seen",
    [
        Seen(("refused", OWNER)),
        Seen(("refused", OWNER), exact=True),
        Seen(("accepted", LOST), ("refused", OWNER)),
        Seen(("refused", OWNER), ("accepted", LOST)),
    ],
    ids=["at once", "exactly once", "after a step that was lost", "before a zombie had room for it"],
)
def test_a_request_is_refused_unless_a_kept_record_has_accepted_it(seen: Seen) -> None:
    assert list(seen._unadmitted()) == [SOURCE]


@pytest.mark.parametrize(
    "seen",
    [
        Seen(("accepted", OWNER)),
        Seen(("refused", LOST), ("accepted", OWNER)),
        Seen(("accepted", LOST), ("refused", OWNER), ("accepted", OWNER)),
        Seen(("accepted", LOST), ("refused", OWNER), kept=True),
        Seen(("accepted", LOST), ("refused", OWNER), exact=True),
        Seen(("accepted", LOST), ("delivered", LOST), ("refused", OWNER)),
        Seen(("refused", LOST), ("duplicate", OWNER)),
    ],
    ids=["never refused", "in a life that went on", "in both", "its row was kept", "exactly once", "it ended", "known"],
)
def test_a_request_that_may_have_been_accepted_for_good_must_come_to_an_end(seen: Seen) -> None:
    assert not list(seen._unadmitted())
