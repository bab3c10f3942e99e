"""How many requests a second a caller may send."""

import pytest

from app.serve.access.caller import ANYBODY, Caller
from app.serve.access.rate_limit import RateLimit

SHOP, MAIL = Caller("shop", "operator", rate=10, burst=5), Caller("mail", "operator", rate=10, burst=5)


def test_so_many_may_come_at_once_and_then_as_the_rate_allows() -> None:
    limit = RateLimit()

    assert [limit.take(SHOP, 0) for _ in range(5)] == [0] * 5
    assert limit.take(SHOP, 0) == pytest.approx(0.1)
    assert limit.take(SHOP, 0.11) == 0
    assert limit.take(SHOP, 0.11) > 0


def test_no_more_than_a_burst_is_saved_up() -> None:
    limit = RateLimit()
    limit.take(SHOP, 0)

    assert sum(limit.take(SHOP, 3_600) == 0 for _ in range(20)) == 5


def test_one_caller_takes_nothing_from_another() -> None:
    limit = RateLimit()
    for _ in range(9):
        limit.take(SHOP, 0)

    assert limit.take(MAIL, 0) == 0


def test_headers_say_how_much_is_left() -> None:
    limit = RateLimit()
    limit.take(SHOP, 0)

    assert limit.headers(SHOP, 0) == {"RateLimit-Policy": '"requests";q=5;w=1', "RateLimit": '"requests";r=4;t=1'}


def test_whoever_has_no_rate_is_not_counted() -> None:
    limit = RateLimit()

    assert all(limit.take(ANYBODY, 0) == 0 for _ in range(1_000))
    assert limit.headers(ANYBODY, 0) == {}
