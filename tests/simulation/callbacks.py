"""Failure callbacks of one run, by seed: each failure of a request with a callback is posted, under a name of its
own."""

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.simulation.web import Post, Web
from tests.simulation.workload import LARGEST, Ask

if TYPE_CHECKING:
    from tests.simulation.evidence import Evidence, Told

#: The share of runs with callbacks, and the share of their requests.
_SHARE, _ASKED = 0.3, 0.5
_GONE = 410
#: Requests that are not accepted fail too. A team that has no room gets no callback: it would wait itself.
_FAILURES = ("rejected", "refused")


def call_back(asks: list[Ask], seed: int, web: Web) -> None:
    """Give some requests callbacks and leave the others as they are; series often fail, to have many callbacks."""
    rnd = random.Random(f"callbacks {seed}")  # noqa: S311 - the same run for the same seed
    if rnd.random() >= _SHARE:
        return
    for ask in asks:
        if ask.op == "schedule" and rnd.random() < _ASKED:
            ask.headers.append(("delay-on-failure", web.callback(rnd).encode()))
            if ask.recurs and rnd.random() < _ASKED:
                ask.value = bytes(LARGEST)


def broken_callbacks(evidence: "Evidence") -> Iterator[str]:
    """Return a sentence for each callback that should not have been made, and for each that was not."""
    calls: dict[str, list[Post]] = defaultdict(list)
    for call in evidence.world.web.callbacks:
        calls[call.headers["Idempotency-Key"]].append(call)
    failed = {name: told for told in evidence.told if (name := _name(evidence, told)) is not None}
    for name, made in calls.items():
        url = None if name not in failed else _url(evidence, failed[name])
        if any(call.url != url for call in made):
            yield f"{made[0]} calls back for {name}, which was not requested"
        if len({call.headers["webhook-id"] for call in made}) > 1:
            yield f"the callback of {name} was made under several ids"
    if len({call.headers["webhook-id"] for made in calls.values() for call in made}) != len(calls):
        yield "one id stands for the callbacks of several failures"
    waiting = {entry.source for store in evidence.stores.values() for _, entry in store.rows() if entry.url is not None}
    for name, told in failed.items():
        over = name in waiting or any(call.status in (200, _GONE) for call in calls[name])
        if _url(evidence, told) is not None and not over and _is_kept(evidence, told):
            yield f"no callback was made for {name}: {told.event}"


def _name(evidence: "Evidence", told: "Told") -> str | None:
    """Return the name of a failure, or None if the event is not a failure."""
    event = told.event
    if event["event"] not in _FAILURES or event["source"] not in evidence.asks:
        return None
    series = event["event"] == "rejected" and evidence.asks[event["source"]].recurs
    return f"{event['source']}@{event['due']}" if series else str(event["source"])


def _url(evidence: "Evidence", told: "Told") -> str | None:
    return evidence.asks[told.event["source"]].said("delay-on-failure")


def _is_kept(evidence: "Evidence", told: "Told") -> bool:
    """Return whether the step with a failure's event was kept for certain, and so must have the callback."""
    ask = evidence.asks[told.event["source"]]
    if told.event["event"] == "refused" and ask.input and evidence.world.settings.topics.quotas:
        return False
    return evidence.exact or evidence.broken_off(told.sent, evidence.world.home(ask)) is None
