"""Actions on messages and destinations: the audit records each one before it is done, and then its outcome."""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from aiokafka.errors import KafkaError

from app.base.errors import PunctualError
from app.base.http.allow_list import AllowList
from app.engine.engine import Engine
from app.engine.throttle.control import Control
from app.kafka.errors import SendError
from app.kafka.patience import brokers_answer
from app.serve.access.caller import Caller
from app.serve.actions.audit import Audit, noted_headers
from app.serve.actions.commands import CommandSender
from app.serve.actions.job_log import JobLog
from app.serve.actions.namespace_bounds import NamespaceBounds
from app.serve.actions.resend import Correction, Sending, resend
from app.serve.actions.writing import PATIENCE_S, NotSent
from app.serve.dead_letters.dead_letter import DeadLetter, SentAgain
from app.serve.messages.outcome import SENT, Outcome
from app.serve.web.problem import Problem
from punctual.client import controls
from punctual.client.times import epoch_ms
from punctual.contract.destination import Destination, destination, named
from punctual.contract.rate import UNLIMITED
from punctual.durations import moment, when


class Actions:
    """Executes the actions on one installation."""

    def __init__(self, engine: Engine, log: JobLog) -> None:
        self._engine, self._log, self._topics = engine, log, engine.settings.topics
        self.commands, self.audit = CommandSender(engine), Audit(engine)
        self.bounds = NamespaceBounds(engine.settings)

    async def send(self, caller: Caller, action: str, records: Sequence[Sending]) -> list[Outcome | NotSent]:
        """Send requests or commands with IDs to their inputs, in order, as one action, and return their outcomes.

        Raises Problem with a sentence if nothing was done.
        """
        if not records:
            return []
        ids = [(one.request.id or b"").decode() for one in records]
        target, asked = ids[0], noted_headers(records[0].request.headers)
        if len(records) > 1:
            target, asked = f"{len(records):,} messages", {"ids": ids}
        outcomes: list[Outcome | NotSent] = []

        async def execute() -> Outcome:
            outcomes.extend(await self.commands.execute(action, records))
            return _summary(outcomes)

        await self.audit.record(caller, action, target, asked, execute, self._within(ids))
        return outcomes

    async def resend(self, caller: Caller, one: DeadLetter, correction: Correction) -> Outcome:
        """Send a dead letter again, with a correction if there is one, and return its outcome.

        Raises IncompleteDeadLetter, or Problem with a sentence if nothing was done.
        """
        clock = self._engine.clock
        record = resend(self._topics, one, clock.wall_ms(), correction)
        self.bounds.check_resend(caller, record)
        asked = {"headers": sorted(correction.headers), "value": correction.replaces}
        within = self._within([one.id or one.source])

        async def execute() -> Outcome:
            outcome = _summary(await self.commands.execute("resend", [record]))
            with contextlib.suppress(SendError, KafkaError, TimeoutError, PunctualError):  # it is in the audit anyway
                await self._log.resent(one, SentAgain(clock.wall_ms(), caller.name))
            return outcome

        return await self.audit.record(caller, "resend", f"dead letter {one.place}", asked, execute, within)

    async def control(self, caller: Caller, action: str, to: str, asked: dict[str, Any], **changes: Any) -> Outcome:
        """Set the state of a destination from now on: `paused`, `reason`, `until` (a datetime) or `rate`.

        The record replaces the whole state, so the rest is copied from the current one. Raises Problem if nothing was
        done, also if the destination does not exist, ValueError for invalid changes.
        """
        until = changes.get("until")
        if until is not None and epoch_ms(until) <= self._engine.clock.wall_ms():
            raise ValueError(f"until is {moment(epoch_ms(until))}, which is in the past. Choose a later time")
        known = await self._known(to)
        holds: dict[str, Any] = {"paused": False, "rate": None}
        if known is not None:
            holds = {"paused": known.paused, "reason": known.reason or None, "until": known.until_ms}
            holds["rate"] = UNLIMITED if known.unlimited else None if known.rate is None else str(known.rate)
        request = controls.control(to, **(holds | {"by": caller.name} | changes))
        sentence = "the brokers do not confirm that the destination exists; nothing was sent"
        async with brokers_answer(PATIENCE_S, lambda _: NotSent(sentence)):
            await _check_exists(self._engine, destination(to))

        async def execute() -> Outcome:
            source = await self.commands.send(request, self._topics.controls, 0)
            return Outcome(outcome=SENT, sentence=self._state(action, changes), source=source)

        return await self.audit.record(caller, action, to, asked, execute)

    def _state(self, action: str, changes: Mapping[str, Any]) -> str:
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
        sentence = "the brokers do not return its current state; nothing was sent"
        async with brokers_answer(PATIENCE_S, lambda _: NotSent(sentence)):
            await self._engine.controls.read()
        return self._engine.controls.known.get(destination(to))

    def _within(self, ids: Iterable[str]) -> Collection[str]:
        """Return the namespaces that an action on these IDs is limited to, none if an ID has no namespace."""
        namespaces = {self._topics.namespaces.of_id(id_) for id_ in ids}
        return () if "" in namespaces else namespaces


def _summary(outcomes: Sequence[Outcome | NotSent]) -> Outcome:
    """Return the outcome of an action, from the outcomes of its records. Raises NotSent if it has a single record."""
    if len(outcomes) == 1:
        if isinstance(outcomes[0], NotSent):
            raise outcomes[0]
        return outcomes[0]
    counts = Counter("failed" if isinstance(one, NotSent) else one.outcome for one in outcomes).most_common()
    return Outcome(outcome=counts[0][0], sentence=", ".join(f"{number:,} {name}" for name, number in counts) + ".")


async def _check_exists(engine: Engine, to: Destination) -> None:
    """Raise Problem unless a destination has a topic, an allowed URL pattern, a control or pending messages.

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
        raise _missing(f"no pattern in DELAY_HTTP_DESTINATIONS or DELAY_CALLBACKS allows URLs of {topic}")
    target = engine.targets.get(cluster)
    if target is None:
        raise _missing(f"DELAY_CLUSTERS has no cluster {cluster}")
    if target.cluster.partitions(topic) or not await target.cluster.refresh([topic]):
        return
    raise _missing(
        f"the topic {topic} does not exist, and no message for it is pending. "
        "To pause a recurring message, use its ID: `punctual pause --id ID`"
    )


def _missing(sentence: str) -> Problem:
    return Problem("unknown-destination", sentence)
