"""Contexts are read from messages in the W3C format: each once, up to a maximum, of recorded traces only."""

import pytest

from app.engine.traces.traces import Headers, contexts_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def headers(span: int = 1, flags: str = "01", **more: bytes | None) -> Headers:
    return [("a", None), ("traceparent", f"00-{TRACE}-{span:016x}-{flags}".encode()), *more.items()]


def test_the_state_of_a_trace_comes_along() -> None:
    [context] = contexts_of([headers(7, tracestate=b"vendor=1,other=2")], 10)
    assert (context.trace_id, context.span_id) == (int(TRACE, 16), 7)
    assert (context.is_remote, dict(context.trace_state)) == (True, {"vendor": "1", "other": "2"})


def test_each_context_is_read_once_and_their_number_is_limited() -> None:
    assert [one.span_id for one in contexts_of([headers(1), headers(2), headers(1), headers(3)], 10)] == [1, 2, 3]
    assert [one.span_id for one in contexts_of((headers(span) for span in range(1, 1_000)), 128)] == [*range(1, 129)]


@pytest.mark.parametrize(
    "value",
    [None, b"", b"\xff\x00", b"nonsense", f"00-{'0' * 32}-{SPAN}-01".encode(), f"ff-{TRACE}-{SPAN}-01".encode()],
)
def test_what_makes_no_sense_is_passed_over(value: bytes | None) -> None:
    assert contexts_of([[("traceparent", value)], headers(5)], 10) == contexts_of([headers(5)], 10)


def test_unrecorded_traces_are_skipped() -> None:
    assert contexts_of([headers(flags="00"), [("key", b"value")], []], 10) == []
