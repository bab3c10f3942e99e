"""Spans of posts follow the conventions for HTTP clients, without secret parts of URLs."""

import pytest

from app.base.http.answers import HttpOutcome, Meaning, answer_of
from app.base.http.target import target_of
from app.engine.traces.traces import attributes_of

URL = "https://hooks.example.com/services/T0/s3cret?sig=abc"


def said(url: str, answer: HttpOutcome, attempts: int = 0) -> dict[str, object]:
    return dict(attributes_of(target_of(url), attempts, answer))


def test_a_post_that_is_taken_says_where_and_the_status() -> None:
    assert said("http://hooks.example.com:8080/", answer_of(204, None, 0)) == {
        "http.request.method": "POST",
        "url.full": "http://hooks.example.com:8080/",
        "server.address": "hooks.example.com",
        "server.port": 8080,
        "http.response.status_code": 204,
    }


def test_a_span_has_only_the_origin_of_a_url() -> None:
    found = said(URL, answer_of(200, None, 0))
    assert (found["url.full"], found["server.port"]) == ("https://hooks.example.com/REDACTED", 443)
    assert "s3cret" not in str(found)
    assert said("https://hooks.example.com/?sig=abc", answer_of(200, None, 0))["url.full"] == found["url.full"]


@pytest.mark.parametrize(
    ("answer", "type_", "status"),
    [
        (answer_of(503, None, 0), "503", 503),
        (answer_of(302, None, 0), "302", 302),
        (answer_of(410, None, 0), "410", 410),
        (HttpOutcome(Meaning.AGAIN, "timeout", of_host=True), "timeout", None),
        (HttpOutcome(Meaning.AGAIN, "certificate not trusted"), "certificate_not_trusted", None),
    ],
)
def test_a_failed_post_has_the_reason_and_the_number_of_the_attempt(
    answer: HttpOutcome, type_: str, status: int | None
) -> None:
    found = said(URL, answer, attempts=3)
    assert (found["error.type"], found.get("http.response.status_code")) == (type_, status)
    assert found["http.request.resend_count"] == 3
