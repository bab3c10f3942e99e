"""Actions on messages and destinations: the audit records each one before it is done, and then its outcome."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

from aiohttp import web
from aiokafka.errors import KafkaError

from app.base.errors import PunctualError
from app.base.http.allow_list import AllowList
from app.engine.engine import Engine
from app.engine.throttle.control import Control
from app.kafka.errors import SendError
from app.serve.access.caller import CALLER, Caller
from app.serve.actions.audit import Action, Audit, noted
from app.serve.actions.commands import CommandSender, NotSent, Sending
from app.serve.actions.job_log import JobLog
from app.serve.actions.namespace_bounds import NamespaceBounds
from app.serve.actions.resend import Correction, resend
from app.serve.actions.writing import PATIENCE_S
from app.serve.dead_letters.dead_letter import DeadLetter, SentAgain, namespace_of
from app.serve.messages.outcome import SENT, Outcome
from app.serve.web.problem import TypedProblem
from punctual.client import controls
from punctual.client.requests import Request
from punctual.client.times import epoch_ms
from punctual.contract.destination import Destination, destination, named
from punctual.contract.rate import UNLIMITED
from punctual.durations import moment, when


class NotThere(TypedProblem):
    """The destination does not exist, and no message waits for it; the sentence says what to do."""

    type_name = "unknown-destination"


class Actor(NamedTuple):
    """The user who acts, the role, and whether that role is bound to namespaces."""

    name: str
    role: str
    bound: bool = False

    @classmethod
    def of(cls, request: web.Request) -> Self:
        """Return the user of a request, whom the gate (app/serve/access) has checked."""
        caller = request[CALLER]
        return cls(caller.name, caller.role, caller.bound)


class Actions:
    """Executes the actions on one installation."""

    def __init__(self, engine: Engine, log: JobLog) -> None:
        """Send with `engine`'s sender; `log` stores which dead letters were sent again."""
        self._engine, self._log = engine, log
        self.commands, self.audit = CommandSender(engine), Audit(engine)
        self.bounds = NamespaceBounds(engine.settings)

    async def send(
        self, actor: Actor, action: str, request: Request, asked: dict[str, Any], topic: str | None = None
    ) -> Outcome:
        """Send a request or command for an ID, to the requests topic or the input `topic`, and return its outcome.

        Raises NotAudited or NotSent with a sentence if nothing was done.
        """
        if request.id is None:  # so that its outcome can be found
            raise ValueError("a request from here needs an ID")
        target = request.id.decode()
        within = self._within(self._engine.settings.topics.namespaces.of_id(target))
        return await self._done(
            actor, action, target, noted(asked), lambda: self.commands.execute(action, request, topic), within
        )

    async def send_all(self, actor: Actor, messages: Sequence[Sending]) -> list[Outcome | NotSent]:
        """Schedule messages with IDs, in order, as one action, and return their outcomes.

        Raises NotAudited or NotSent if nothing was done.
        """
        if not messages:
            return []
        ids = [(one.request.id or b"").decode() for one in messages]
        namespaces = set(map(self._engine.settings.topics.namespaces.of_id, ids))
        within = () if "" in namespaces else tuple(namespaces)
        begun = await self.audit.begin(
            "create", f"{len(messages):,} messages", actor.name, actor.role, {"ids": ids}, within
        )
        try:
            outcomes = await self.commands.execute_all("create", [(one.request, one.topic) for one in messages])
        except NotSent as error:
            await self.audit.end(begun, Outcome(outcome="failed", sentence=str(error)))
            raise
        counts = Counter("failed" if isinstance(one, NotSent) else one.outcome for one in outcomes)
        sentence = ", ".join(f"{number:,} {name}" for name, number in counts.most_common())
        [(most, _)] = counts.most_common(1)
        await self.audit.end(begun, Outcome(outcome=most, sentence=f"{sentence}."))
        return outcomes

    async def resend(self, caller: Caller, one: DeadLetter, correction: Correction) -> Outcome:
        """Send a dead letter again, with a correction if there is one, and return its outcome.

        Raises IncompleteDeadLetter, OutsideNamespaces, NotAudited or NotSent with a sentence if nothing was done.
        """
        engine, actor = self._engine, Actor(caller.name, caller.role)
        again = resend(engine.settings.topics, one, engine.clock.wall_ms(), correction)
        self.bounds.check_resend(caller, again)
        asked = {"headers": sorted(correction.headers), "value": correction.replaces}
        within = self._within(namespace_of(engine.settings.topics.namespaces, one))

        async def do() -> Outcome:
            outcome = await self.commands.resend(again)
            with contextlib.suppress(SendError, KafkaError, TimeoutError, PunctualError):  # it is in the audit anyway
                await self._log.resent(one, SentAgain(engine.clock.wall_ms(), actor.name))
            return outcome

        return await self._done(actor, "resend", f"dead letter {one.place}", asked, do, within)

    async def control(self, actor: Actor, action: str, to: str, asked: dict[str, Any], **changes: Any) -> Outcome:
        """Set the state of a destination from now on: `paused`, `reason`, `until` (a datetime) or `rate`.

        The record replaces the whole state, so the rest is copied from the current one. Raises NotAudited or NotSent if
        nothing was done, NotThere if the destination does not exist, ValueError for invalid changes.
        """
        until = changes.get("until")
        if until is not None and epoch_ms(until) <= self._engine.clock.wall_ms():
            raise ValueError(f"until is {moment(epoch_ms(until))}, which is in the past. Choose a later time")
        known = await self._known(to)
        holds: dict[str, Any] = {"paused": False, "rate": None}
        if known is not None:
            holds = {"paused": known.paused, "reason": known.reason or None, "until": known.until_ms}
            holds["rate"] = UNLIMITED if known.unlimited else None if known.rate is None else str(known.rate)
        request = controls.control(to, **(holds | {"by": actor.name} | changes))
        await self._check_exists(to)

        async def say() -> Outcome:
            source = await self.commands.send(request, self._engine.settings.topics.controls, 0)
            return Outcome(outcome=SENT, sentence=self._state(action, changes), source=source)

        return await self._done(actor, action, to, asked, say)

    def _state(self, action: str, changes: Mapping[str, Any]) -> str:
        """Return the state of a destination after an action, as a sentence."""
        if action == "rate":
            rate = changes["rate"]
            if rate is None:
                return "Rate limit from the workers' settings."
            return "No rate limit." if rate == UNLIMITED else f"Rate limit {rate}."
        until = changes.get("until")
        until_text = "" if until is None else f" until {when(epoch_ms(until), self._engine.clock.wall_ms())}"
        return f"Paused{until_text}." if changes["paused"] else "Resumed."

    async def _known(self, to: str) -> Control | None:
        """Return the control of a destination, the newest included. Raises NotSent."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._engine.controls.read()
        except (TimeoutError, KafkaError) as error:
            raise NotSent("the brokers do not return its current state; nothing was sent") from error
        return self._engine.controls.known.get(destination(to))

    async def _check_exists(self, to: str) -> None:
        """Check that a destination exists. Raises NotSent, NotThere."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await _check_exists(self._engine, destination(to))
        except (TimeoutError, KafkaError) as error:
            raise NotSent("the brokers do not confirm that the destination exists; nothing was sent") from error

    @staticmethod
    def _within(namespace: str) -> tuple[str, ...]:
        return (namespace,) if namespace else ()

    async def _done(
        self,
        actor: Actor,
        action: str,
        target: str,
        asked: dict[str, Any],
        do: Callable[[], Awaitable[Outcome]],
        within: tuple[str, ...] = (),
    ) -> Outcome:
        begun = await self.audit.begin(action, target, actor.name, actor.role, asked, within)
        try:
            outcome = await do()
        except NotSent as error:
            await self.audit.end(begun, Outcome(outcome="failed", sentence=str(error)))
            raise
        await self.audit.end(begun, outcome)
        return outcome

    async def last(self, limit: int, within: Collection[str] | None = None) -> list[Action]:
        """Return the newest actions, or those about some namespaces, the newest first."""
        return await self.audit.last(limit, within)


async def _check_exists(engine: Engine, to: Destination) -> None:
    """Raise NotThere unless a destination has a topic, an allowed URL pattern, a control or pending messages.

    Raises aiokafka.errors.KafkaError if no broker answers whether the topic exists.
    """
    cluster, topic = to
    name = named(cluster, topic)
    if to in engine.controls.known or any(name in report.progress.pending for report in engine.reader.reports.values()):
        return
    if "://" in topic:
        settings = engine.settings
        allowed = (*settings.destinations.allowed_callbacks.values(), *settings.destinations.allowed_urls.values())
        patterns = [pattern for patterns in allowed for pattern in patterns]
        if AllowList(patterns, ("https", "http")).reaches(topic):
            return
        raise NotThere(f"no pattern in DELAY_HTTP_DESTINATIONS or DELAY_CALLBACKS allows URLs of {topic}")
    target = engine.targets.get(cluster)
    if target is None:
        raise NotThere(f"DELAY_CLUSTERS has no cluster {cluster}")
    if target.cluster.partitions(topic) or not await target.cluster.refresh([topic]):
        return
    raise NotThere(
        f"the topic {topic} does not exist, and no message for it is pending. "
        "To pause a recurring message, use its ID: `punctual pause --id ID`"
    )
