"""How many requests a second a caller may send."""

import pytest

from app.serve.access.caller import ANYBODY, Caller
from app.serve.access.gate import RateLimit

SHOP, MAIL = Caller("shop", "operator", rate=10, burst=5), Caller("mail", "operator", rate=10, burst=5)


def test_a_burst_may_come_at_once_and_later_requests_at_the_rate() -> None:
    limit = RateLimit()

    assert [limit.take(SHOP, 0) for _ in range(5)] == [0] * 5
    assert limit.take(SHOP, 0) == pytest.approx(0.1)
    assert limit.take(SHOP, 0.11) == 0
    assert limit.take(SHOP, 0.11) > 0


def test_at_most_one_burst_is_saved_up() -> None:
    limit = RateLimit()
    limit.take(SHOP, 0)

    assert sum(limit.take(SHOP, 3_600) == 0 for _ in range(20)) == 5


def test_each_caller_has_a_rate_limit_of_their_own() -> None:
    limit = RateLimit()
    for _ in range(9):
        limit.take(SHOP, 0)

    assert limit.take(MAIL, 0) == 0


def test_headers_have_the_number_of_requests_that_are_left() -> None:
    limit = RateLimit()
    limit.take(SHOP, 0)

    assert limit.headers(SHOP, 0) == {"RateLimit-Policy": '"requests";q=5;w=1', "RateLimit": '"requests";r=4;t=1'}


def test_requests_of_callers_without_a_rate_are_not_counted() -> None:
    limit = RateLimit()

    assert all(limit.take(ANYBODY, 0) == 0 for _ in range(1_000))
    assert limit.headers(ANYBODY, 0) == {}


def test_a_limit_that_has_changed_makes_a_caller_wait_for_one_request_at_most() -> None:
    limit, slow = RateLimit(), Caller("shop", "operator", rate=1, burst=100)
    for _ in range(100):
        limit.take(slow, 0)

    assert limit.take(slow, 0) == pytest.approx(1)
    assert limit.take(SHOP, 0) == pytest.approx(0.1)
    assert limit.headers(SHOP, 0)["RateLimit"] == '"requests";r=0;t=1'
    assert limit.take(SHOP, 0.11) == 0
