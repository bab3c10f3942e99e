"""What destinations are counted under: of URLs no more than the origin."""

import pytest

from tables.counts import display_name


@pytest.mark.parametrize(
    ("to", "name"),
    [
        ("orders", "orders"),
        ("", ""),
        ("https://hooks.example.com/t0ken/?s=1", "https://hooks.example.com"),
        ("https://hooks.example.com?s=1", "https://hooks.example.com"),
        ("http://[::1]:8080/a/b", "http://[::1]:8080"),
        ("https://hooks.example.com", "https://hooks.example.com"),
    ],
)
def test_a_url_is_counted_by_its_origin(to: str, name: str) -> None:
    assert display_name(to) == name
