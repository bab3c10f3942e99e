"""The destinations of a caller."""

import pytest

from app.serve.access.caller import Caller


@pytest.mark.parametrize(
    ("pattern", "to", "may"),
    [
        ("orders.*", "orders.late", True),
        ("orders.*", "payments", False),
        ("*", "payments", True),
        ("*", "https://hooks.example.com/x", True),
        ("*", "http://127.0.0.1/x", False),
        ("orders.*", "https://hooks.example.com/x", False),
        ("https://*.example.com/*", "https://hooks.example.com/x", True),
        ("https://*.example.com/*", "https://evil.test/x.example.com/", False),
        ("https://hooks.example.com/a/*", "https://hooks.example.com/a/../b", False),
        ("http://127.0.0.1:*", "http://127.0.0.1:8080/x", True),
    ],
)
def test_topics_and_urls_are_each_compared_by_their_own_rules(pattern: str, to: str, *, may: bool) -> None:
    assert Caller("shop", "operator", destinations=(pattern,)).may_deliver_to(to) is may


def test_a_caller_without_destinations_cannot_deliver() -> None:
    assert not Caller("watch", "operator", destinations=()).may_deliver_to("orders")
