"""Zones: names as IANA has them, and whatever else people write."""

from importlib.resources import files

import pytest

from punctual.contract.zones import parse_zone, stretch_at

ALL = (files("tzdata") / "zones").read_text("utf-8").split()


def test_every_name_of_tzdata_is_known() -> None:
    names = [name for name in ALL if name != "Factory"]

    assert len(names) > 590
    assert [parse_zone(name) for name in names] == names


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("europe/berlin", "Europe/Berlin"),
        ("utc", "UTC"),
        ("Berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("Europe/New_York", "America/New_York"),
        ("Pacific/Aukland", "Pacific/Auckland"),
        ("Sidney", "Australia/Sydney"),
        ("CEST", None),
        ("+02:00", "Etc/GMT-2, which is UTC+2"),
        ("UTC+2", "Etc/GMT-2, which is UTC+2"),
        ("GMT+5", "Etc/GMT-5, which is UTC+5"),
        ("gmt-05", "Etc/GMT+5, which is UTC-5"),
        ("GMT+61", None),
        ("GMT+5:30", None),
        ("Z", None),
        ("", None),
        ("Europe", None),
        ("../../etc/passwd", None),
        ("/etc/localtime", None),
        ("localtime", None),
        ("right/UTC", "Etc/UTC"),
        ("posix/Europe/Berlin", "Europe/Berlin"),
        ("Factory", None),
        ("Europe/Berlin\0", "Europe/Berlin"),
        ("Z\u00fcrich", "Europe/Zurich"),
        ("a" * 10_000, None),
    ],
)
def test_an_unknown_zone_is_refused_with_the_most_similar_name(text: str, near: str | None) -> None:
    with pytest.raises(ValueError, match="is not a known time zone") as raised:
        parse_zone(text)

    hint = f"; the nearest is {near}" if near else ""
    assert str(raised.value).endswith(f"known time zone{hint}. Use an IANA name such as Europe/Berlin, or UTC")


def test_a_change_of_clocks_is_between_two_stretches() -> None:
    change = 1_774_746_000  # 2026-03-29T01:00:00Z
    before, after = stretch_at("Europe/Berlin", change - 1), stretch_at("Europe/Berlin", change)

    assert (before.end, before.offset) == (change, 3_600)
    assert (after.start, after.offset, after.reached) == (change, 7_200, change + 3_600)
    assert stretch_at("UTC", -1).reached == stretch_at("UTC", -1).start
