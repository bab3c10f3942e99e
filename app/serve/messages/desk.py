"""The desk behind the routes of messages: a worker's writes to Kafka at once, a gateway's also to its spool."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

import msgspec
from aiohttp import web

from app.base.errors import untraced
from app.serve.access.caller import Caller
from app.serve.messages.acceptance import Accepted, Draft
from app.serve.messages.outcome import Outcome
from app.serve.web.problem import Problem, of_refusal
from punctual.contract.namespaces import Namespaces
from punctual.contract.request import Refusal

T = TypeVar("T")

#: Other requests get a turn after this time, because some messages take a hundred times as long as others.
_TURN_S: Final = 0.002


class Done(msgspec.Struct, frozen=True):
    """A message that is safe, and its record's `topic-partition-offset`, if that is known.

    If it is `spooled`, its only copy is on this server's disk. `outcome` is the one that a worker has reported, if this
    was waited for.
    """

    accepted: Accepted
    source: str | None
    spooled: bool = False
    outcome: Outcome | None = None


class MessageDesk(Protocol):
    """Schedules messages, sends commands, and finds pending messages, with the permissions of a request's caller."""

    async def read(self, request: web.Request, id_: str) -> web.Response:
        """Return the response with the pending message with a full ID. Raises Problem."""

    async def hand_in(
        self, request: web.Request, count: int, draft: Callable[[int], Draft]
    ) -> Sequence[Done | Problem]:
        """Schedule `count` messages; `draft` returns each by its number, or raises a Problem. Return all outcomes."""

    async def command(self, request: web.Request, action: str, draft: Draft) -> Outcome:
        """Send a command, whose key is its ID, and return its outcome. Raises Problem if it is not sent."""


def full_id(caller: Caller, id_: str, namespaces: Namespaces) -> str:
    """Return the full ID that a caller means, within the caller's namespaces. Raises Problem."""
    try:
        id_.encode()
        return caller.full_id(id_, namespaces)
    except UnicodeEncodeError as error:
        raise Problem("unknown-message", "The ID is not UTF-8.") from error
    except Refusal as refusal:
        raise of_refusal(refusal) from refusal


async def hand_in(
    count: int,
    read: Callable[[int], Accepted],
    send: Callable[[list[Accepted]], Awaitable[Sequence[T | Problem]]],
) -> list[T | Problem]:
    """Return the outcomes of `count` messages, in order.

    `read` returns each by its number, or raises its Problem; `send` returns the outcomes of the others.
    """
    messages: list[Accepted | Problem] = []
    time = asyncio.get_running_loop().time
    turn_s = time() + _TURN_S
    for number in range(count):
        if time() >= turn_s:
            await asyncio.sleep(0)
            turn_s = time() + _TURN_S
        try:
            messages.append(read(number))
        except Problem as problem:
            messages.append(untraced(problem))  # otherwise a reference cycle would keep the whole request
        except Refusal as refusal:
            messages.append(of_refusal(refusal))
    outcomes = iter(await send([one for one in messages if isinstance(one, Accepted)]))
    return [next(outcomes) if isinstance(one, Accepted) else one for one in messages]
