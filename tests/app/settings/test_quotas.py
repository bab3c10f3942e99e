"""Quotas as settings say them."""

import pytest

from app.base.errors import SettingInvalid
from app.settings.quotas import Quota, by_namespace, quotas
from app.settings.settings import Settings
from punctual.contract.namespaces import parse_namespaces
from punctual.contract.rate import Rate


def test_a_quota_has_parts_that_may_be_left_out() -> None:
    assert quotas("orders=messages:100|bytes:2000|rate:500/s burst 1000, *=rate:20/m") == {
        "orders": Quota(100, 2_000, Rate(500.0, 1_000)),
        "*": Quota(rate=Rate(20 / 60)),
    }
    assert quotas("") == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("orders", "'orders' is not of the form name=value"),
        ("Orders=messages:1", "'Orders' is not the name of a namespace"),
        ("orders=1000", "orders=1000: a quota must look like messages:1000000"),
        ("orders=rows:1000", "a quota must look like"),
        ("orders=messages:1|messages:2", "at most once"),
        ("orders=messages:-1", "orders=messages:-1: it must be a whole number from 0"),
        ("orders=messages:1,orders=rate:5/s", "orders is given twice"),
        ("orders=rate:fast", "orders=rate:fast: 'fast' is not a rate"),
    ],
)
def test_an_invalid_quota_is_refused_with_the_valid_form(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        quotas(text)


def test_a_star_is_each_other_namespace() -> None:
    there = parse_namespaces("a=orders,b=billing,shop")
    assert by_namespace(quotas("orders=messages:1,*=messages:2"), there) == {
        "billing": Quota(2),
        "orders": Quota(1),
        "shop": Quota(2),
    }
    assert by_namespace(quotas("orders=messages:1"), there) == {"orders": Quota(1)}


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"DELAY_NAMESPACES": "billing"}, "DELAY_QUOTAS=orders: it is not a namespace of DELAY_NAMESPACES: bil"),
        ({}, "DELAY_QUOTAS=orders: it is not a namespace of DELAY_NAMESPACES: none"),
    ],
)
def test_quotas_are_those_of_namespaces(named: dict[str, str], why: str) -> None:
    with pytest.raises(SettingInvalid, match=why):
        Settings.from_env({**named, "DELAY_QUOTAS": "orders=messages:1"})


def test_the_number_of_namespaces_is_limited() -> None:
    with pytest.raises(SettingInvalid, match="DELAY_NAMESPACES=301 namespaces: the maximum is 300 namespaces"):
        Settings.from_env({"DELAY_NAMESPACES": ",".join(f"team-{number}" for number in range(301))})
    with pytest.raises(SettingInvalid, match="quotas apply to namespaces, but DELAY_NAMESPACES has none"):
        Settings.from_env({"DELAY_QUOTAS": "*=messages:1"})
