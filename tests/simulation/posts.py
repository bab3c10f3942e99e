"""POSTs: none early, none with other content than requested, and no attempt before its time (records.md)."""

from collections import defaultdict
from collections.abc import Iterator

from tables import keys
from tables.entry import decode
from tests.simulation.evidence import Evidence
from tests.simulation.web import Post

#: The changelog's times are in milliseconds: a row with the time of a POST may be older or newer.
_MS = 0.001
#: The time of a row's next try, the row's writer, and its time in the changelog.
Plan = tuple[int, str, float]


def broken_posts(evidence: Evidence) -> Iterator[str]:
    """Return a sentence for each request that should not have been made, or not so."""
    plans = _plans(evidence)
    ids: dict[str, set[str]] = defaultdict(set)
    for post in evidence.world.web.posts:
        ask = evidence.asks.get(post.source)
        if ask is None or ask.said("delay-to") != post.url or (ask.value or b"") != post.body:
            yield f"{post} differs from the request"
            continue
        ids[post.headers["webhook-id"]].add(post.source)
        if post.sent.latest_ms < post.due_ms:
            yield f"{post} was early by its worker's clock"
        yield from _hasty(evidence, post, plans[post.source, post.due_ms])
    for id_, sources in ids.items():
        if len(sources) > 1:
            yield f"{id_} stands for {sorted(sources)}"
    if len(ids) != len({post.source for post in evidence.world.web.posts}):
        yield "a message has been posted under several ids"


def _plans(evidence: Evidence) -> dict[tuple[str, int], list[Plan]]:
    """Return the planned next attempts of each message and due time."""
    found: dict[tuple[str, int], list[Plan]] = defaultdict(list)
    for batch, record in evidence.read(evidence.world.settings.topics.changelog):
        if record.key is None or record.value is None or not keys.is_row(record.key):
            continue
        entry = decode(record.value)
        if batch.sent is not None:  # a command may have moved the message to its old due time: attempts begin again
            plan = entry.next_try_ms or 0, batch.sent.worker, evidence.seconds(batch.at_ms)
            found[entry.source, keys.due_of(record.key)].append(plan)
    return found


def _hasty(evidence: Evidence, post: Post, plans: list[Plan]) -> Iterator[str]:
    """Check that no POST is made before the time that its worker had to know, by the worker's clock."""
    number = evidence.world.home(evidence.asks[post.source])
    began_s = evidence.began(post.sent, number)
    own = [plan for plan in plans if plan[2] < began_s or plan[1] == post.sent.worker]
    known = [plan for plan in own if plan[2] < max(began_s, post.sent.at_s - _MS)]
    perhaps = [plan for plan in own if plan not in known and plan[2] <= post.sent.at_s + _MS]
    if known and post.sent.latest_ms < (next_ms := min(plan[0] for plan in (known[-1], *perhaps))):
        yield f"{post} was not to be made before {next_ms}"
