"""Messages due beyond a horizon, most of them cancelled by id and at once scheduled anew, through other partitions."""

import time
from collections.abc import Callable

from confluent_kafka import Message

from tests.chaos.traffic import Kind, Story, Traffic
from tests.harness.kafka import now_ms

#: Between an acknowledgement and what follows it "at once": stamps are milliseconds, and equal ones have no order.
_AT_ONCE_S = 0.003


class ColdTraffic(Traffic):
    """Schedules ids that are far, cancels them without a key, and schedules them anew once that is acknowledged."""

    def _one(self, number: int) -> None:
        chosen, id_, to = self.random, f"message-{number}", self.outs[number % len(self.outs)]
        kind = chosen.choice([Kind.PLAIN, Kind.CANCEL, *[Kind.REPLACE] * 6])
        story = self.stories[id_] = Story(kind, to, now_ms() + chosen.randint(*self.far_ms))
        where = chosen.randrange(self.partitions)
        self._schedule(id_, story, 0, where, lambda _: setattr(story, "acked", True))
        if kind is not Kind.PLAIN:
            self._later.append((time.monotonic() + chosen.uniform(0.5, 3), lambda: self._cancel(id_, story)))

    def _schedule(self, id_: str, story: Story, revision: int, where: int, acked: Callable[[Message], None]) -> None:
        due = story.then_ms if revision else story.due_ms
        headers = {"delay-id": id_, "delay-at": str(due), **self._to(story.to)}
        self._produce(headers, id_, self.value(id_, revision), where, acked)

    def _cancel(self, id_: str, story: Story) -> None:
        if not story.acked:
            self._later.append((time.monotonic() + 1, lambda: self._cancel(id_, story)))
            return
        self.commands += 1
        where = self.random.randrange(self.partitions)
        story.foreign = True

        def cancelled(_: Message) -> None:
            if story.kind is Kind.CANCEL:
                story.command_ms = now_ms()
            else:
                self._later.append((time.monotonic() + _AT_ONCE_S, lambda: self._anew(id_, story, where)))

        self._produce({"delay-op": "cancel", "delay-id": id_}, "", None, where, cancelled)

    def _anew(self, id_: str, story: Story, after: int) -> None:
        where = (after + self.random.randrange(1, self.partitions)) % self.partitions
        story.then_ms = now_ms() + self.random.randint(*self.far_ms)
        self._schedule(id_, story, 1, where, lambda _: setattr(story, "command_ms", now_ms()))
