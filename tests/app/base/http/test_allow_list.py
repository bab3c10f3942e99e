"""Which URLs patterns allow, and how a pattern names a host or a port."""

import pytest

from app.base.http.allow_list import AllowList, NotListed


@pytest.mark.parametrize(
    ("pattern", "url", "named"),
    [
        ("*", "https://a.example/x", False),
        ("https://*", "https://a.example/x", False),
        ("https://a.example", "https://a.example/x", True),
        ("https://a.example:443", "https://a.example/x", True),
        ("https://A.Example", "https://a.example/x", True),
        ("https://*.a.example/hooks/*", "https://b.a.example/hooks/1", False),
        ("https://*.a.example:8443", "https://b.a.example:8443/", False),
        ("http://127.0.0.1:*", "http://127.0.0.1/", True),
        ("http://127.0.0.1:*", "http://127.0.0.1:8080/", True),
        ("http://127.0.0.1*", "http://127.0.0.1:8080/", True),
        ("http://127.0.0.1:80*", "http://127.0.0.1:8080/", True),
        ("http://2130706433:*", "http://127.0.0.1:8080/", None),
        ("http://127.0.0.1:*", "http://2130706433:8080/", True),
        ("http://[::1]:*", "http://[::1]:8080/", True),
        ("http://[::1]", "http://[0:0:0:0:0:0:0:1]/", True),
        ("http://[fd00::1]:8080/*", "http://[fd00::1]:8080/x", True),
        ("http://hooks:8080", "http://hooks:8080/", True),
        ("https://hooks.internal", "https://hooks.internal/", True),
        # not listed, or private and not named, or another port
        ("*", "http://a.example/", None),
        ("https://a.example", "https://b.a.example/", None),
        ("https://*.a.example", "https://a.example/", None),
        ("https://*.a.example", "https://evil.test/.a.example", None),
        ("https://a.example/hooks/*", "https://a.example/hooks/../admin", None),
        ("https://*.internal", "https://hooks.internal/", None),
        ("https://*", "https://hooks.internal/", None),
        ("http://127.*", "http://127.0.0.1/", None),
        ("http://10.0.0.*:*", "http://10.0.0.5:8080/", None),
        ("http://127.0.0.1*", "http://127.0.0.1.evil.test:8080/", None),
        ("https://*", "https://a.example:8443/", None),
        ("https://*:*", "https://a.example:8443/", None),
        ("https://a.example:8443", "https://a.example/", None),
        ("https://a.example:8443", "https://a.example:9443/", None),
        ("http://[::1]:*", "http://[::2]:8080/", None),
    ],
)
def test_a_pattern_allows_listed_urls_and_names_hosts_without_a_wildcard(
    pattern: str, url: str, *, named: bool | None
) -> None:
    if named is None:
        with pytest.raises(NotListed):
            AllowList([pattern]).allowed(url)
    else:
        assert AllowList([pattern]).allowed(url).named is named


def test_a_star_is_all_of_the_default_schemes() -> None:
    assert AllowList(["*"], ("https", "http")).allowed("http://a.example/").target.origin == "http://a.example"


def test_one_pattern_may_name_what_another_admits() -> None:
    assert AllowList(["http://*", "http://10.0.0.1"]).allowed("http://10.0.0.1/").named
