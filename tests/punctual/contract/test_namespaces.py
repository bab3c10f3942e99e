"""Namespaces of ids: full names, and whose they are."""

import pytest

from punctual.contract.namespaces import Namespaces, parse_namespaces
from punctual.contract.request import Reason, Refusal

_TEAMS = parse_namespaces("orders-delays=orders,a-1=billing, more=orders, gateway,")


@pytest.mark.parametrize(
    ("id_", "full"),
    [
        ("x", "orders/x"),
        ("orders/x", "orders/x"),
        ("orders/", "orders/"),
        ("billing/x", "orders/billing/x"),
        ("orders-delays-3-1042", "orders-delays-3-1042"),
        ("orders-delays-3-1042@1700000000000", "orders-delays-3-1042@1700000000000"),
        ("more-0-0", "more-0-0"),
        ("orders-delays-3", "orders/orders-delays-3"),
        ("orders-delays-3-x", "orders/orders-delays-3-x"),
        ("orders-delays-3-1042~2~mails", "orders/orders-delays-3-1042~2~mails"),
        ("orders-delays-3-\u0663", "orders/orders-delays-3-\u0663"),
        ("orders-delays", "orders/orders-delays"),
        ("a-1-0-0", "orders/a-1-0-0"),  # automatic, but billing's
        ("delay-requests-0-0", "orders/delay-requests-0-0"),  # automatic, but shared
    ],
)
def test_a_full_name_is_made_once(id_: str, full: str) -> None:
    assert _TEAMS.full("orders", id_) == full
    assert _TEAMS.full("orders", full) == full
    assert _TEAMS.of_id(full) == "orders"


def test_ids_without_a_namespace_keep_their_names() -> None:
    assert _TEAMS.full("", "x") == "x"
    assert _TEAMS.full("", "billing/x") == "billing/x"
    assert [_TEAMS.of_id(id_) for id_ in ("x", "a-1-2", "a-1-2-3", "nobody/x", "gateway/x")] == [
        *("", "", "billing", "", "gateway")
    ]
    assert (_TEAMS.of_topic("more"), _TEAMS.of_topic("delay-requests")) == ("orders", "")


def test_a_full_name_is_no_longer_than_an_id_can_be() -> None:
    fits = "\u00e9" * 124
    assert _TEAMS.full("orders", fits) == f"orders/{fits}"
    with pytest.raises(
        Refusal, match=r"delay-id has 257 bytes with its namespace \(orders/\). The maximum is 256"
    ) as refused:
        _TEAMS.full("orders", f"{fits}xx")
    assert refused.value.reason is Reason.BAD_ID


def test_there_may_be_none() -> None:
    assert not Namespaces()
    assert not parse_namespaces(" ,")
    assert parse_namespaces("gateway")
    assert parse_namespaces("a=one,two").names == {"one", "two"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a=Team", "'Team' is not the name of a namespace"),
        ("a=", "'' is not the name of a namespace"),
        ("-x", "'-x' is not the name of a namespace"),
        (f"a={'x' * 64}", "is not the name of a namespace. Use 1 to 63 lower-case letters"),
        ("=x", "'=x' has no input before the ="),
        ("a=x,a=y", "'a=y' gives an input a second namespace"),
    ],
)
def test_an_invalid_namespace_is_an_error_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_namespaces(text)
