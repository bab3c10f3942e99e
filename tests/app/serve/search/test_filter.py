"""What fits a filter, and how filters are written in addresses."""

import msgspec
import pytest

from app.serve.search.filter import Filter, FilterError
from punctual.contract.namespaces import Namespaces, parse_namespaces
from tables import Command, Entry
from tables.entry import Series
from tests.tables.rows import NOW, entry, key

TEAMS = parse_namespaces("orders-delays=orders,billing-delays=billing,gateway")


def row(id_: str = "a", **more: object) -> Entry:
    given = {"to": "orders", "key": b"k", "value": b"v", "headers": [("h", b"1"), ("empty", None)], **more}
    return Entry(id_, source="delay-requests-0-17", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (Filter(), True),
        (Filter(to="orders"), True),
        (Filter(to="order"), False),
        (Filter(due_from_ms=NOW, due_to_ms=NOW), True),
        (Filter(due_from_ms=NOW + 1), False),
        (Filter(due_to_ms=NOW - 1), False),
        (Filter(key="k"), True),
        (Filter(key="v"), False),
        (Filter(header="h"), True),
        (Filter(header="h:1"), True),
        (Filter(header="h:"), False),
        (Filter(header="h:2"), False),
        (Filter(header="empty"), True),
        (Filter(header="none"), False),
        (Filter(source="delay-requests"), True),
        (Filter(source="delay-requests-0"), True),
        (Filter(source="delay-requests-0-17"), True),
        (Filter(source="delay-requests-0-1"), False),
        (Filter(source="delay"), True),
        (Filter(id_prefix="a"), True),
        (Filter(id_prefix="b"), False),
        (Filter(recurring="yes"), False),
    ],
)
def test_a_message_fits_if_all_of_its_fields_fit(wanted: Filter, fits: bool) -> None:  # noqa: FBT001 - a case
    assert wanted.fits(key(NOW), row()) == fits


def test_a_recurring_message_fits_a_filter_for_recurring_messages() -> None:
    assert Filter(recurring="yes").fits(key(NOW), row(series=Series(b"rule", NOW)))


def test_urls_fit_by_their_beginnings() -> None:
    there = row(to="https://shop.example/hooks/1")
    assert Filter(to="https://shop.example/").fits(key(NOW), there)
    assert not Filter(to="https://shop.example.org").fits(key(NOW), there)


@pytest.mark.parametrize(
    ("namespace", "id_", "fits"),
    [
        ("orders", "orders/x", True),
        ("orders", "orders-delays-0-1", True),
        ("orders", "billing/x", False),
        ("orders", "billing/orders/x", False),
        ("orders", "x", False),
        ("orders", "orders", False),
        ("orders,billing", "billing/x", True),
        ("gateway", "gateway/x", True),
        ("gateway", "orders-delays-0-1", False),
        ("-", "orders/x", False),
        ("-", "-/x", False),
        ("", "x", True),
    ],
)
def test_ids_fit_by_their_namespace(namespace: str, id_: str, fits: bool) -> None:  # noqa: FBT001 - a case
    wanted = Filter.from_query({"namespace": namespace}, TEAMS)

    assert wanted.fits(key(NOW), row(id_)) == fits
    assert wanted.query().get("namespace", "") == ",".join(sorted(filter(None, namespace.split(","))))
    assert Filter.from_query(wanted.query(), TEAMS) == wanted
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(wanted), type=Filter) == wanted


def test_a_filter_by_namespaces_has_only_existing_namespaces() -> None:
    assert TEAMS.part([]) == TEAMS.part(["nobody"]) == Namespaces()
    assert Filter(within=TEAMS.part(["nobody"])).query() == {"namespace": "-"}
    assert not Filter(within=TEAMS.part(["nobody"])).fits(key(NOW), row("nobody/x"))


def test_rows_that_are_not_messages_fit_no_filter() -> None:
    assert not Filter().fits(key(NOW), row(url="https://shop.example/failed"))
    assert not Filter().fits(key(NOW), entry("a", "orders", Command("replace", "x-0-1")))


def test_every_row_that_fits_has_the_needles() -> None:
    from tables.entry import encode  # noqa: PLC0415 - just here

    raw = encode(row("straße", key="schlüssel".encode(), headers=[("naïve", "ü".encode())]))
    wanted = Filter(to="orders", key="schlüssel", header="naïve:ü", source="delay-requests-0", id_prefix="straß")
    assert wanted.fits(key(NOW), row("straße", key="schlüssel".encode(), headers=[("naïve", "ü".encode())]))
    assert all(needle in raw for needle in wanted.needles)


def test_a_filter_survives_a_round_trip_in_a_url() -> None:
    wanted = Filter(to="orders", due_from_ms=NOW, due_to_ms=NOW + 5, key="k", header="h:1", source="s", id_prefix="a")
    wanted = msgspec.structs.replace(wanted, recurring="yes")
    assert Filter.from_query(wanted.query()) == wanted
    assert Filter.from_query({}) == Filter()
    assert Filter.from_query({"due_from": "2026-01-01T00:00:00Z", "limit": "7"}) == Filter(due_from_ms=NOW)


@pytest.mark.parametrize("name", ["to", "key", "header", "source", "id_prefix"])
def test_blanks_around_a_search_text_count(name: str) -> None:
    wanted = Filter.from_query({name: " h:a "})
    assert wanted.query() == {name: " h:a "}
    assert Filter.from_query(wanted.query()) == wanted
    assert Filter.from_query({name: "  "}) == Filter()


def test_blanks_around_times_and_yes_do_not_count() -> None:
    assert Filter.from_query({"due_from": f" {NOW} ", "recurring": "yes "}) == Filter(due_from_ms=NOW, recurring="yes")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"due_from": "soon"}, "due_from='soon' is not a time"),
        ({"to": "x" * 2_000}, "The maximum of a filter is 1024"),
        ({"namespace": "shop"}, "there is no namespace 'shop'; they are billing, gateway, orders"),
        ({"namespace": "orders"}, "there is no namespace 'orders'; DELAY_NAMESPACES has none"),
        ({"recurring": "no"}, "must be yes"),
    ],
)
def test_an_invalid_filter_is_an_error(query: dict[str, str], says: str) -> None:
    with pytest.raises(FilterError, match=says):
        Filter.from_query(query, TEAMS if "orders" not in query.values() else None)
