"""How settings and records say how much a destination may get."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.settings.rates import by_destination, optional, rates
from punctual.contract.destination import destination
from punctual.contract.rate import Rate, parse_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("500/s", Rate(500.0)),
        ("20/m", Rate(20 / 60)),
        ("3600/h", Rate(1.0)),
        ("0.5/s", Rate(0.5)),
        ("20/s burst 100", Rate(20.0, 100)),
        (" 20/s  burst  100 ", Rate(20.0, 100)),
    ],
)
def test_a_rate_is_messages_by_a_unit_of_time(text: str, rate: Rate) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    "text", ["", "500", "/s", "500/d", "-1/s", "0/s", "5/s burst", "5/s burst x", "2000000/s", "5e3/s"]
)
def test_an_invalid_rate_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a rate\. Use|a rate must be above 0"):
        parse_rate(text)


def test_destinations_have_rates() -> None:
    named = rates("emails=500/s, emea/orders=20/m burst 5,https://hooks.example.com:8443=3/s")

    assert by_destination(named) == {
        (None, "emails"): Rate(500.0),
        ("emea", "orders"): Rate(20 / 60, 5),
        (None, "https://hooks.example.com:8443"): Rate(3.0),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("emails", "is not of the form destination=rate"),
        ("emails=", "is not a rate"),
        ("e mails=5/s", "is not a destination"),
        ("https://host/path=5/s", "is not a destination"),
        ("https://user@host=5/s", "is not a destination"),
        ("a/b/c=5/s", "is not a destination"),
        ("/b=5/s", "is not a destination"),
        ("emails=5/s,emails=6/s", "emails has two rates"),
    ],
)
def test_an_invalid_destination_is_an_error(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        rates(text)


def test_there_may_be_no_rate() -> None:
    assert optional("0") is None
    assert optional("5/s") == Rate(5.0)


def test_a_destination_is_a_topic_a_topic_of_a_cluster_or_the_origin_of_urls() -> None:
    assert destination("orders") == (None, "orders")
    assert destination("emea/orders") == ("emea", "orders")
    assert destination("https://host:1") == (None, "https://host:1")


@pytest.mark.parametrize(
    "text", ["5/m", "1/m", "10/h", "1000000/s", "1000/m", "123456.7/s", "0.000001/h", "7/h burst 9", "20/s burst 100"]
)
def test_a_rate_is_written_as_it_is_read(text: str) -> None:
    assert parse_rate(str(parse_rate(text))) == parse_rate(text)


@given(st.integers(1, 10**9), st.sampled_from("smh"))
def test_so_is_every_rate_of_six_decimals(millionths: int, unit: str) -> None:
    rate = parse_rate(f"{millionths / 1e6:.6f}/{unit}")
    assert parse_rate(str(rate)) == rate


def test_an_unset_rate_comes_from_the_closest_pattern() -> None:
    assert str(Rate(1e-12)) == "0.000001/h"
    assert parse_rate(str(Rate(1 / 7))).per_s == pytest.approx(1 / 7)
