"""What may be shown of a destination."""

from datetime import timedelta

import pytest

from punctual.client.errors import InvalidDestinationError, InvalidOptionError
from punctual.client.requests import schedule
from punctual.contract.destination import destination, shown
from punctual.contract.dialects import countdown
from punctual.contract.request import Refusal
from tables.counts import display_name
from tests.punctual.contract.records import FakeRecord


@pytest.mark.parametrize(
    ("to", "text"),
    [
        ("orders", "orders"),
        ("orders.eu-1_x", "orders.eu-1_x"),
        ("", ""),
        ("https://hooks.example.com", "https://hooks.example.com"),
        ("https://hooks.example.com:8443/a/b?token=1#c", "https://hooks.example.com:8443"),
        ("https://hooks.example.com?token=1", "https://hooks.example.com"),
        ("https://hooks.example.com#token", "https://hooks.example.com"),
        ("https://hooks.example.com/a@b", "https://hooks.example.com"),
        ("https://hooks.example.com:8443/a@b", "https://hooks.example.com:8443"),
        ("https://[::1]:8443/a@b", "https://[::1]:8443"),
        ("https://[::1]/a@b", "https://[::1]"),
        ("https://ann:secret@hooks.example.com/a", "https://hooks.example.com"),
        ("https://ann:se@cret@hooks.example.com/a", "https://hooks.example.com"),
        ("https://ann:se/cret@hooks.example.com/a", "https://ann"),
        ("https:/hooks.example.com/secret", "https:/hooks.example.com"),
        ("https:///secret", "https://"),
        ("https:\\\\hooks.example.com\\secret", "https:\\\\hooks.example.com"),
        ("//ann:secret@hooks.example.com/a", "//hooks.example.com"),
        ("hooks.example.com/secret", "hooks.example.com"),
        ("hooks.example.com?secret", "hooks.example.com"),
        ("ann:secret@hooks.example.com", "hooks.example.com"),
        ("ftp+x://ann:secret@h\n/a", "ftp+x://h\n"),
    ],
)
def test_of_a_url_the_origin_alone_is_shown(to: str, text: str) -> None:
    assert shown(to) == text
    if "@" not in to and "#" not in to and "://" in to:
        assert display_name(to) == text, "the counted name differs from the shown one"


def test_errors_do_not_repeat_what_may_be_a_secret() -> None:
    url = "ftp://ann:secret@hooks.example.com/secret"
    body = b'{"topic": "https://hooks.example.com/secret", "message": "", "countdown": 1}'
    record = FakeRecord([("delay-to", url.encode())], None, body)
    with pytest.raises(InvalidDestinationError) as bad_topic:
        schedule(url, b"", after=timedelta(seconds=1))
    with pytest.raises(InvalidOptionError) as bad_callback:
        schedule("orders", b"", after=timedelta(seconds=1), on_failure=url)
    with pytest.raises(ValueError, match="is not a destination") as bad_name:
        destination(url)
    with pytest.raises(Refusal) as two:
        countdown.decode(record)

    for error in (bad_topic.value, bad_callback.value, bad_name.value, two.value):
        assert "secret" not in str(error)
        assert "hooks.example.com" in str(error)
