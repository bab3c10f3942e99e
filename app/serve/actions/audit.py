"""Records every action with user, time and outcome: two records per action, on a topic that the first one creates."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import aiokafka.errors
import msgspec

from app.base.errors import PunctualError
from app.base.process.skipped_records import decoded
from app.engine.engine import Engine
from app.engine.topics.creation import ensure_audit
from app.kafka.errors import SendError, TopicUnknown
from app.kafka.metadata.reader import PartitionReader
from app.kafka.patience import brokers_answer
from app.serve.access.caller import Caller
from app.serve.actions.writing import PATIENCE_S, NotSent, write
from app.serve.messages.outcome import Outcome
from app.serve.search.visibility import MASKED, sees
from app.serve.web.problem import Problem
from punctual.contract import headers as names
from punctual.contract.destination import shown

#: The number of newest records that are read for a page.
_LAST: Final = 2_000


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One action: its ID, when it began (epoch ms), its user and role, its target, and the request in `asked`.

    `outcome`, `sentence` and `source` are set once it is over, `namespaces` if it was about these alone.
    """

    act_id: str
    at_ms: int
    by: str
    act: str
    target: str
    role: str = ""
    asked: dict[str, Any] = {}
    outcome: str = ""
    sentence: str = ""
    source: str = ""
    namespaces: tuple[str, ...] = ()


def noted(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request as the audit records it: a destination URL is reduced to its origin."""
    urls = {name: shown(asked[name]) for name in ("to", "on-failure") if isinstance(asked.get(name), str)}
    return {**asked, **urls}


def noted_headers(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, Any]:
    """Return the instructions in a request's headers as the audit records them, which is without the content."""
    return noted(
        {
            name.removeprefix(names.PREFIX): (value or b"").decode(errors="replace")
            for name, value in headers
            if name.startswith(names.PREFIX) and name != names.OP
        }
    )


def noted_filter(query: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a filter for the audit, which keeps them for a year: keys and header values masked."""
    name, colon, _ = query.get("header", "").partition(":")
    masks = {"key": MASKED, "header": name + (f":{MASKED}" if colon else "")}
    return noted({**query, **{name: masks[name] for name in masks.keys() & query.keys()}})


_decode = msgspec.json.Decoder(Action).decode


class Audit:
    """Records actions before they are done, and their outcomes after."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._topic = engine, engine.settings.topics.audit
        self._there = False
        self._numbers = itertools.count(1)

    async def record(
        self,
        caller: Caller,
        action: str,
        target: str,
        asked: dict[str, Any],
        execute: Callable[[], Awaitable[Outcome]],
        within: Iterable[str] = (),
    ) -> Outcome:
        """Record an action, `execute` it, then record and return its outcome.

        `within` are the namespaces of its target, none for an action on the whole. Raises Problem, without executing
        the action, if it cannot be recorded; a NotSent of the action is recorded too.
        """
        action_begun = await self.begin(caller, action, target, asked, within)
        try:
            outcome = await execute()
        except NotSent as error:
            await self.end(action_begun, Outcome(outcome=error.outcome, sentence=str(error)))
            raise
        await self.end(action_begun, outcome)
        return outcome

    async def begin(
        self, caller: Caller, action: str, target: str, asked: dict[str, Any], within: Iterable[str]
    ) -> Action:
        """Record that an action begins. Raises Problem."""
        now_ms = self._engine.clock.wall_ms()
        action_begun = Action(
            act_id=f"{now_ms}-{self._engine.settings.process.port}-{next(self._numbers)}",
            at_ms=now_ms,
            by=caller.name,
            role=caller.role,
            act=action,
            target=target,
            asked=asked,
            namespaces=tuple(sorted(within)),
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._write_in(action_begun)
        except (SendError, aiokafka.errors.KafkaError, TimeoutError, PunctualError) as error:
            why = str(error) or "the brokers do not answer"
            sentence = f"nothing was done, because the action cannot be recorded in {self._topic}: {why}"
            raise Problem("kafka-unavailable", sentence) from error
        return action_begun

    async def _write_in(self, action: Action) -> None:
        """Write an action; create the topic if it does not exist, because it may have been deleted since."""
        if self._there:
            try:
                return await self._write(action)
            except TopicUnknown:
                self._there = False
        await ensure_audit(self._engine.settings.kafka, self._engine.settings.topics)
        await self._write(action)
        self._there = True
        return None

    async def end(self, action: Action, outcome: Outcome) -> None:
        """Record the outcome of an action; ignore errors, because the action is done."""
        done = msgspec.structs.replace(
            action, outcome=outcome.outcome, sentence=outcome.sentence, source=outcome.source or ""
        )
        with contextlib.suppress(SendError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self._write(done)

    async def _write(self, action: Action) -> None:
        await write(self._engine, self._topic, 0, action.act_id.encode(), msgspec.json.encode(action))

    async def last(self, limit: int, caller: Caller) -> list[Action]:
        """Return the newest actions that `caller` may see, newest first; none without a topic. Raises Problem."""
        cluster, actions = self._engine.cluster, dict[str, Action]()
        sentence = "the brokers do not return the audit at the moment; try again later"
        async with brokers_answer(PATIENCE_S, lambda _: Problem("kafka-unavailable", sentence)):
            if not cluster.partitions(self._topic):
                await cluster.refresh([self._topic])
                if not cluster.partitions(self._topic):
                    return []
            async for record in PartitionReader.last(cluster, self._topic, 0, _LAST):
                action = decoded(self._topic, 0, record.offset, record.value, _decode)
                if action is not None and sees(caller, action.namespaces):
                    actions[action.act_id] = action
        return sorted(actions.values(), key=lambda action: action.at_ms, reverse=True)[:limit]
