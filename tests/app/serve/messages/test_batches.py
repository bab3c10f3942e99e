"""The response to a batch says what its messages have in common."""

from aiohttp.test_utils import make_mocked_request

from app.serve.actions.writing import Unconfirmed
from app.serve.messages.routes import AGAIN, MESSAGES, _batch
from app.serve.web.problem import Problem


def test_a_batch_waits_for_its_message_with_the_longest_wait() -> None:
    request = make_mocked_request("POST", MESSAGES)
    problems = [Problem("quota", "full"), Problem("kafka-unavailable", "down"), Problem("missing-due", "no time")]

    answer = _batch(request, problems)

    assert (answer.status, answer.headers["Retry-After"]) == (422, "5")
    assert request[AGAIN]


def test_a_batch_that_no_wait_helps_has_no_retry_after() -> None:
    answer = _batch(make_mocked_request("POST", MESSAGES), [Problem("missing-due", "no time")])

    assert (answer.status, "Retry-After" in answer.headers) == (422, False)


def test_a_batch_of_which_a_part_may_have_been_done_does_not_ask_to_be_repeated() -> None:
    answer = _batch(make_mocked_request("POST", MESSAGES), [Problem("quota", "full"), Unconfirmed("it may be stored")])

    assert "Retry-After" not in answer.headers
