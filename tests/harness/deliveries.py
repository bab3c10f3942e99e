"""Requests, and their deliveries at a destination."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Self

from tests.harness.kafka import Record, Requests, read


@dataclass
class Expected:
    """Messages that must be delivered at least once and never before they are due, and cancelled ones."""

    due: dict[str, int] = field(default_factory=dict)
    content: dict[str, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)

    def schedule(self, requests: Requests, id_: str, due_ms: int, to: str, *, partition: int = -1) -> None:
        """Ask for a delivery with a key and a value that no text codec would leave alone."""
        key, value = id_.encode(), b"\x00\xff" + id_.encode() * 3
        requests.schedule(id_, due_ms, to, value, key=key, partition=partition)
        self.due[id_], self.content[id_] = due_ms, (key, value)

    def reschedule(self, requests: Requests, id_: str, due_ms: int, *, partition: int = -1) -> None:
        """Reschedule a message, and expect its new due time."""
        requests.reschedule(id_, due_ms, partition=partition)
        self.due[id_] = due_ms

    def cancel(self, requests: Requests, id_: str, *, partition: int = -1) -> None:
        """Ask for a cancel that holds, well before the due time."""
        requests.cancel(id_, partition=partition)
        self.cancelled.add(id_)

    @property
    def wanted(self) -> set[str]:
        """The ids that must be delivered."""
        return set(self.due) - self.cancelled


@dataclass
class Deliveries:
    """The records of a destination, by id."""

    copies: dict[str, list[Record]] = field(default_factory=dict)

    @classmethod
    def read(cls, bootstrap: str, topic: str) -> Self:
        """Read a destination to its end."""
        found = cls()
        for record in read(bootstrap, topic):
            found.copies.setdefault(record.header("delay-id"), []).append(record)
        return found

    @property
    def ids(self) -> set[str]:
        """The ids that were delivered."""
        return set(self.copies)

    @property
    def duplicates(self) -> int:
        """How many copies there are beyond the first of each id."""
        return sum(len(records) - 1 for records in self.copies.values())

    @property
    def repeats(self) -> Counter[str]:
        """The ids that came more than once, and how many times more."""
        return Counter({id_: len(records) - 1 for id_, records in self.copies.items() if len(records) > 1})

    def faults(self, expected: Expected) -> list[str]:
        """Return a sentence for everything lost, early, changed, or delivered though cancelled."""
        lost = sorted(expected.wanted - self.ids)
        found = [f"{len(lost)} are lost: {lost[:10]}"] if lost else []
        for id_, records in self.copies.items():
            if id_ in expected.cancelled:
                found.append(f"{id_} was delivered though cancelled")
            if id_ not in expected.due:
                found.append(f"nobody asked for {id_}")
                continue
            for record in records:
                early = expected.due[id_] - record.timestamp_ms
                if early > 0:
                    found.append(f"{id_} came {early} ms early")
                if record.header("delay-due") != str(expected.due[id_]):
                    found.append(f"{id_} says it was due at {record.header('delay-due')}, not {expected.due[id_]}")
                if (record.key, record.value) != expected.content[id_]:
                    found.append(f"{id_} has other bytes than were sent")
        return found

    def check(self, expected: Expected, *, duplicates: int = 0) -> None:
        """Fail with a list of faults unless the deliveries are as expected, with at most `duplicates` duplicates."""
        faults = self.faults(expected)
        if self.duplicates > duplicates:
            faults.append(f"{self.duplicates} duplicates, {duplicates} at most are within the promise: {self.repeats}")
        assert not faults, "the deliveries are not as expected:\n" + "\n".join(faults[:20])
