"""Which dead letters are whose."""

import pytest

from app.serve.dead_letters.dead_letter import DeadLetter, DeadLetterFilter
from app.serve.search.filter import FilterError
from punctual.contract.namespaces import parse_namespaces
from tests.punctual.contract.records import NOW

TEAMS = parse_namespaces("orders-delays=orders,billing-delays=billing")


def letter(source: str, id_: str | None = None) -> DeadLetter:
    return DeadLetter(partition=0, offset=0, at_ms=NOW, reason="malformed", error="", source=source, id=id_)


@pytest.mark.parametrize(
    ("namespace", "one", "fits"),
    [
        ("orders", letter("orders-delays-0-1"), True),
        ("orders", letter("orders-delays-0-1", "orders/x"), True),
        ("orders", letter("delay-requests-0-1", "orders/x"), True),
        ("orders", letter("delay-requests-0-1"), False),
        ("orders", letter("billing-delays-0-1"), False),
        ("orders", letter("billing-delays-0-1", "billing/orders/x"), False),
        ("billing,orders", letter("billing-delays-0-1"), True),
        ("-", letter("billing-delays-0-1"), False),
        ("", letter("delay-requests-0-1"), True),
    ],
)
def test_dead_letters_fit_by_their_namespace(namespace: str, one: DeadLetter, fits: bool) -> None:  # noqa: FBT001
    wanted = DeadLetterFilter.from_query({"namespace": namespace}, TEAMS)

    assert wanted.fits(one) == fits
    assert DeadLetterFilter.from_query(wanted.query(), TEAMS) == wanted


@pytest.mark.parametrize("name", ["to", "source", "id_prefix"])
def test_blanks_around_a_search_text_count(name: str) -> None:
    wanted = DeadLetterFilter.from_query({name: " team 1 ", "sent_again": "yes "})
    assert wanted.query() == {name: " team 1 ", "sent_again": "yes"}
    assert DeadLetterFilter.from_query(wanted.query()) == wanted


def test_an_unknown_namespace_is_an_error() -> None:
    with pytest.raises(FilterError, match="there is no namespace 'shop'; they are billing, orders"):
        DeadLetterFilter.from_query({"namespace": "shop"}, TEAMS)
