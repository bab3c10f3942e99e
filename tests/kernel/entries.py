"""Rows of all kinds for the native extension; most are plain."""

from hypothesis import strategies as st

from tables import Bound, Command, Entry, RecordStamp, keys
from tables.entry import VERSION, Series, encode
from tests.kernel.batches import CONTENT, HEADERS, NOW

Rows = list[tuple[bytes, bytes]]

_STAMPS = st.builds(RecordStamp, st.integers(-1, 2**50), st.text(max_size=40))
_BOUNDS = st.builds(
    Bound,
    st.integers(-1, 2**50),
    st.one_of(st.none(), st.integers(0, 2**50)),
    st.one_of(st.none(), _STAMPS),
    st.one_of(st.none(), st.integers(0, 2**50)),
)
_TOPICS = st.sampled_from(["orders"] * 5 + ["a", "zür", "x" * 249, "gone"])


def _rarely(what: object) -> st.SearchStrategy[object]:
    """Return None, but one in thirty times something."""
    return st.integers(0, 29).flatmap(lambda one: st.just(what) if one == 29 else st.none())


def entries(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[Entry]:
    """Return entries that are plain unless said otherwise."""
    plain: dict[str, st.SearchStrategy[object]] = {
        "id": st.one_of(st.text(max_size=40), st.integers(0, 10**9).map(lambda number: f"in-3-{number}")),
        "to": _TOPICS,
        "key": CONTENT,
        "value": CONTENT,
        "headers": st.one_of(HEADERS, st.lists(st.tuples(st.just("h"), st.none()), min_size=16, max_size=18)),
        "source": st.integers(0, 10**9).map(lambda number: f"in-3-{number}"),
        "partition": st.one_of(st.none(), st.none(), st.integers(0, 10**15)),
        "dedupe_ms": _rarely(60_000),
        "on_failure": st.sampled_from([None, None, "https://host/failed"]),
        "stamp_ms": st.one_of(st.just(-1), st.integers(NOW - 10, NOW + 10), st.integers(-32, 2**62)),
        "asked_by": _rarely("in-3-1"),
        "moved": st.one_of(st.none(), st.none(), st.none(), _STAMPS),
        "bound": st.one_of(st.none(), st.none(), st.none(), _BOUNDS),
    }
    return st.builds(Entry, **{**plain, **fields})


#: The features that make a row not plain.
NOT_PLAIN = {
    "to": st.sampled_from(["https://host/path", "a/b"]),
    "cluster": st.just("emea"),
    "max_late_ms": st.just(0),
    "if_late": st.just("drop"),
    "attempts": st.just(1),
    "commands": st.just((Command("cancel", "in-3-1"),)),
    "url": st.just("https://host/path"),
    "next_try_ms": st.just(NOW),
    "series": st.just(Series(b"rule", NOW)),
}


def is_plain(entry: Entry) -> bool:
    """Whether the kernel is to take a row."""
    rare = entry.cluster, entry.max_late_ms, entry.if_late, entry.url, entry.next_try_ms, entry.series
    return rare == (None,) * 6 and not entry.attempts and not entry.commands and "/" not in entry.to


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    """Return rows of different keys."""
    found: Rows = []
    for offset in range(draw(st.integers(0, 8))):
        entry, version = draw(entries()), VERSION
        if draw(st.integers(0, 29)) == 29:
            field = draw(st.sampled_from(sorted(NOT_PLAIN)))
            entry = draw(entries(**{field: NOT_PLAIN[field]}))
        elif draw(st.integers(0, 29)) == 29:
            version = draw(st.integers(1, VERSION - 1))
        due_ms = draw(st.one_of(st.integers(NOW, NOW + 10**8), st.integers(0, keys.MAX_DUE_MS)))
        found.append((keys.row_key(due_ms, offset, keys.topic_crc("in")), encode(entry, version)))
    return found
