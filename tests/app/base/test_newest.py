"""Only the newest keys of a bounded mapping stay."""

from app.base.newest import Newest


def test_keys_that_were_set_the_longest_ago_are_forgotten() -> None:
    newest = Newest[str, int](2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        newest[key] = value
    assert dict(newest) == {"a": 3, "c": 4}
