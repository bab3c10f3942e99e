"""Questions of the same moment travel together, and none hangs on another's."""

import asyncio
from collections.abc import Collection

import pytest

from app.kafka.metadata.request_coalescer import RequestCoalescer


class Asked:
    """Answers with the number of each question's letters, when it may."""

    def __init__(self) -> None:
        self.rounds: list[list[str]] = []
        self.may = asyncio.Event()
        self.may.set()

    async def __call__(self, whats: Collection[str]) -> dict[str, int]:
        self.rounds.append(list(whats))
        await self.may.wait()
        if "bad" in whats:
            raise OSError("away")
        return {what: len(what) for what in whats}


async def test_simultaneous_requests_for_the_same_answer_are_sent_once() -> None:
    asked = Asked()
    ask = RequestCoalescer(asked)

    assert [*await asyncio.gather(ask("a"), ask("bb"), ask("a"))] == [1, 2, 1]
    assert asked.rounds == [["a", "bb"]]
    assert await ask("a") == 1  # a later request gets a new answer
    assert asked.rounds == [["a", "bb"], ["a"]]


async def test_a_cancelled_caller_leaves_the_others_their_answer() -> None:
    asked = Asked()
    asked.may.clear()
    ask = RequestCoalescer(asked)
    one, other = asyncio.create_task(ask("a")), asyncio.create_task(ask("a"))
    await asyncio.sleep(0.01)
    one.cancel()
    asked.may.set()

    assert await other == 1


async def test_an_error_reaches_all_current_callers_and_no_later_one() -> None:
    ask = RequestCoalescer(Asked())
    answers = await asyncio.gather(ask("bad"), ask("a"), return_exceptions=True)

    assert [type(answer) for answer in answers] == [OSError, OSError]
    assert await ask("a") == 1
    with pytest.raises(OSError, match="away"):
        await ask("bad")
