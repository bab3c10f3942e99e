"""The account of an installation, from Kafka alone (records.md#events)."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from tests.harness.kafka import read
from tests.harness.waiting import LIMIT_S, ask_until

ENDINGS = ("delivered", "cancelled", "replaced", "dropped", "rejected", "parked")
#: So many faults are named where a test fails.
_SHOWN = 20

Event = dict[str, Any]


def life_of(event: Event) -> str:
    """Return the name of the life that an event is of: the source, and which occurrence if it is a later one."""
    number = event.get("occurrence")
    return event["source"] if number is None else f"{event['source']}@{number}"


def _after(life: str) -> str:
    """Return the name of the next occurrence's life."""
    series, _, number = life.partition("@")
    return f"{series}@{int(number or 1) + 1}"


@dataclass
class Account:
    """The events of each life, and the pending messages according to the progress records."""

    events: list[Event] = field(default_factory=list)
    #: Kinds of events by life: by a source, and by the later occurrences of a recurring message.
    lives: dict[str, set[str]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    pending: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, bootstrap: str, app_id: str) -> Self:
        """Read events and progress to their ends."""
        events = (json.loads(record.value or b"") for record in read(bootstrap, f"{app_id}-events"))
        return cls.of(events, pending_of(bootstrap, app_id))

    @classmethod
    def of(cls, events: Iterable[Event], pending: Counter[str], *, keep: bool = True) -> Self:
        """Make an account of events, each counted once for a source, and of the pending messages of each destination.

        Without `keep` it drops the events themselves, and `told` returns an empty list.
        """
        account = cls(pending=pending)
        for event in events:
            if keep:
                account.events.append(event)
            if event["event"] == "accepted" or event["event"] in ENDINGS:
                life = life_of(event)
                account.lives.setdefault(life, set()).add(event["event"])
                account.ids[life] = event["id"]
        over = [_after(life) for life, told in account.lives.items() if told & {"cancelled", "replaced"}]
        for life in over:
            if account.lives.get(life) == {"accepted"}:  # of a step that was not kept: it never was
                del account.lives[life], account.ids[life]
        return account

    @classmethod
    def settled(
        cls, bootstrap: str, app_id: str, seconds: float = LIMIT_S, *, pending: int | None = None, cut_off: int = 0
    ) -> Self:
        """Read until the account balances, with `pending` messages if given: progress follows the events within a
        second.

        `cut_off` is how many lives may have been ended by a step that a crash cut off, and otherwise by the next one.
        Raises AssertionError with the faults.
        """
        return ask_until(
            lambda: cls.read(bootstrap, app_id),
            lambda account: not account.faults(cut_off) and pending in (None, account.sums["pending"]),
            "the balance of the account" if pending is None else f"the balance of the account with {pending} pending",
            lambda account: (account.sums, account.faults(cut_off)[:_SHOWN]),
            seconds,
        )

    def ending(self, source: str) -> str | None:
        """Return how a life ended, None if it has not: `delivered` outranks another ending of the same source."""
        told = self.lives.get(source, set())
        return next((ending for ending in ENDINGS if ending in told), None)

    def endings(self, id_: str) -> list[str]:
        """Return how the lives under an id ended, in the order of their acceptance; lives that go on are left out."""
        found = (self.ending(source) for source, named in self.ids.items() if named == id_)
        return [ending for ending in found if ending]

    def told(self, kind: str, id_: str | None = None) -> list[Event]:
        """Return the events of a kind (of one id, if given), each source and command once."""
        found = {
            (event["id"], event["source"], event.get("by")): event
            for event in self.events
            if event["event"] == kind and id_ in (None, event["id"])
        }
        return list(found.values())

    @property
    def sums(self) -> dict[str, int]:
        """How many lives began, and how many had which ending."""
        accepted = sum("accepted" in told for told in self.lives.values())
        ended = Counter(ending for ending in map(self.ending, self.lives) if ending)
        return {"accepted": accepted, **ended, "pending": sum(self.pending.values())}

    def faults(self, cut_off: int = 0) -> list[str]:
        """Return a sentence for all that does not add up; of two endings only where more than `cut_off` have them."""
        found, twice = [], []
        sums = self.sums
        total = sum(sums.values()) - sums["accepted"]
        if sums["accepted"] != total:
            found.append(f"accepted {sums['accepted']} is not the sum of the rest, {total}: {sums}")
        for source, told in self.lives.items():
            endings = told & set(ENDINGS)
            if "accepted" not in told:
                found.append(f"{self.ids[source]} ({source}) was never accepted, yet {', '.join(sorted(endings))}")
            if len(endings - {"delivered"}) > 1:
                twice.append(f"{self.ids[source]} ({source}) ended as {', '.join(sorted(endings))}")
        return found + (twice if len(twice) > cut_off else [])

    @property
    def outranked(self) -> int:
        """How many lives had an ending besides `delivered`: possible only for deliveries in flight at a crash."""
        return sum("delivered" in told and len(told & set(ENDINGS)) > 1 for told in self.lives.values())

    def assert_balanced(self, cut_off: int = 0) -> None:
        """Fail with sentences if the account does not balance."""
        faults = self.faults(cut_off)
        assert not faults, "the account does not balance:\n" + "\n".join(faults[:_SHOWN])


def pending_of(bootstrap: str, app_id: str) -> Counter[str]:
    """Sum the last progress record of each partition by destination; unnamed destinations count as `(others)`."""
    last = {record.key: record.value for record in read(bootstrap, f"{app_id}-progress")}
    pending: Counter[str] = Counter()
    for value in last.values():
        said = json.loads(value or b"{}")
        pending.update(said.get("pending", {}))
        pending["(others)"] += said.get("pending_rest", {}).get("messages", 0)
    return +pending
