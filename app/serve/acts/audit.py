"""Who did what, by whom, when and with what outcome: two records an act on a topic that the first act creates."""

import asyncio
import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import aiokafka.errors
import msgspec

from app.base.errors import PunctualError
from app.base.process.foreign_records import bounded, passed_over
from app.engine.engine import Engine
from app.engine.topics.creation import ensure_audit
from app.kafka.errors import SendError, TopicUnknown
from app.kafka.metadata.reader import PartitionReader
from app.serve.acts.outcome import Outcome
from app.serve.acts.writing import PATIENCE_S, write
from app.serve.dead_letters.dead_letters import Unreadable
from app.serve.search.visibility import MASKED
from punctual.contract.destination import shown

#: So many of the newest records are read for a page.
_LAST: Final = 2_000


class Act(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One act: its number, when it was taken up (epoch ms), by whom and in which role, on what, and what was asked for.

    `outcome`, `sentence` and `source` are there once it is over; `namespaces` if it was about these alone.
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

    def is_within(self, names: Collection[str]) -> bool:
        """Whether it was about some of these namespaces, and nothing else."""
        return bool(self.namespaces) and set(self.namespaces) <= set(names)


def noted(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request as the audit records it: a destination URL is reduced to its origin."""
    to = asked.get("to")
    return {**asked, "to": shown(to)} if isinstance(to, str) else dict(asked)


def noted_filter(query: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a filter as the audit keeps them: without a key or a header's value, for a year."""
    name, colon, _ = query.get("header", "").partition(":")
    masks = {"key": MASKED, "header": name + (f":{MASKED}" if colon else "")}
    return noted({**query, **{name: masks[name] for name in masks.keys() & query.keys()}})


class NotAudited(Exception):
    """An act that could not be written down, and therefore was not done: a sentence."""


_decode = msgspec.json.Decoder(Act).decode


class Audit:
    """Writes acts down before they are done, and their outcomes after."""

    def __init__(self, engine: Engine) -> None:
        """Write by an engine's own sender; the topic is created by the first act."""
        self._engine, self._topic = engine, engine.settings.audit
        self._there = False
        self._numbers = itertools.count(1)

    async def begin(
        self, act: str, target: str, by: str, role: str, asked: dict[str, Any], within: Iterable[str] = ()
    ) -> Act:
        """Write down that an act is taken up; `within` are the namespaces that it is about, none for all there is.

        Raises NotAudited if that cannot be written: then it must not be done.
        """
        now_ms = self._engine.clock.wall_ms()
        act_id = f"{now_ms}-{self._engine.settings.port}-{next(self._numbers)}"
        names = tuple(sorted(within))
        begun = Act(
            act_id=act_id, at_ms=now_ms, by=by, role=role, act=act, target=target, asked=asked, namespaces=names
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._write_in(begun)
        except (SendError, aiokafka.errors.KafkaError, TimeoutError, PunctualError) as error:
            why = str(error) or "the brokers do not answer"
            raise NotAudited(
                f"nothing was done, because the action cannot be recorded in {self._topic}: {why}"
            ) from error
        return begun

    async def _write_in(self, act: Act) -> None:
        """Write an act to a topic that is created if it is not there: it may have been deleted since the last one."""
        if self._there:
            try:
                return await self._write(act)
            except TopicUnknown:
                self._there = False
        await ensure_audit(self._engine.settings)
        await self._write(act)
        self._there = True
        return None

    async def end(self, act: Act, outcome: Outcome) -> None:
        """Write down what came of an act; what cannot be written any more is left out."""
        done = msgspec.structs.replace(act, outcome=outcome.outcome, sentence=outcome.sentence, source=outcome.source)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._write(done)
        except (SendError, TimeoutError):
            return

    async def _write(self, act: Act) -> None:
        await write(self._engine, self._topic, 0, act.act_id.encode(), msgspec.json.encode(act))

    async def last(self, limit: int, within: Collection[str] | None = None) -> list[Act]:
        """Return the newest acts, or those about some namespaces, the newest first; none if there are none yet.

        Raises Unreadable if the brokers do not give them.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._last(limit, within)
        except (aiokafka.errors.KafkaError, TimeoutError) as error:
            raise Unreadable("the brokers do not return the audit at the moment; try again later") from error

    async def _last(self, limit: int, within: Collection[str] | None) -> list[Act]:
        cluster = self._engine.cluster
        if not cluster.partitions(self._topic):
            await cluster.refresh([self._topic])
            if not cluster.partitions(self._topic):
                return []
        acts: dict[str, Act] = {}
        reader = PartitionReader(cluster, self._topic, 0)
        end = await reader.end()
        reader = PartitionReader(cluster, self._topic, 0, max(await reader.begin(), end - _LAST))
        async for record in reader.up_to(end):
            try:
                act = _decode(bounded(record.value))
            except (ValueError, RecursionError) as error:
                passed_over(self._topic, 0, record.offset, error)
                continue
            if within is None or act.is_within(within):
                acts[act.act_id] = act
        return sorted(acts.values(), key=lambda act: act.at_ms, reverse=True)[:limit]
