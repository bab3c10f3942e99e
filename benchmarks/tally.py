"""Requests against deliveries: without a lost, early, changed or doubled message, or there is no result."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.plan import Plan


@dataclass(frozen=True, slots=True)
class Delivery:
    """The first copy of a message at its destination; times are epoch milliseconds, `at_ms` the broker's."""

    id: str
    due_ms: int
    at_ms: int

    @property
    def late_ms(self) -> int:
        """How late it was; negative is early."""
        return self.at_ms - self.due_ms


class Tally:
    """Compares deliveries with plans, record by record."""

    def __init__(self, plans: Iterable[Plan]) -> None:
        self._plans = {plan.name: plan for plan in plans}
        self._due = {
            plan.id(number): due_ms for plan in self._plans.values() for number, due_ms in enumerate(plan.due_times())
        }
        self._deliveries: dict[str, Delivery] = {}
        self._early = 0
        self.repeats = Counter[str]()
        """The number of duplicate deliveries by the name of the plan."""
        self._wrong: list[str] = []

    def add(self, key: bytes | None, value: bytes | None, at_ms: int, due: bytes | None) -> None:
        """Count one record: its key, value and append time, and its own due time."""
        id_ = (key or b"").decode(errors="replace")
        due_ms = self._due.get(id_)
        name, _, number = id_.rpartition("-")
        if due_ms is None or value != self._plans[name].value(int(number)) or due != self._due_value(name, due_ms):
            self._wrong.append(id_)
            return
        self._early += at_ms < due_ms
        if id_ in self._deliveries:
            self.repeats[name] += 1
        else:
            self._deliveries[id_] = Delivery(id_, due_ms, at_ms)

    def _due_value(self, name: str, due_ms: int) -> bytes:
        return b"%d" % (due_ms // self._plans[name].unit_ms)

    def deliveries(self, *plans: Plan) -> Sequence[Delivery]:
        """Return the deliveries of the `plans`, in no order."""
        names = {plan.name for plan in plans}
        return [delivery for id_, delivery in self._deliveries.items() if id_.rpartition("-")[0] in names]

    def faults(self, *, duplicates_allowed: bool = False) -> list[str]:
        """Return a sentence for each fault; duplicates are allowed only where a worker was killed."""
        lost = len(self._due) - len(self._deliveries)
        sentences = [f"{lost} of {len(self._due)} are lost"] if lost else []
        if self._early:
            sentences.append(f"{self._early} came early (is the brokers' clock the workers'?)")
        if self._wrong:
            sentences.append(f"{len(self._wrong)} differ from the message that was sent, such as {self._wrong[0]!r}")
        if self.repeats and not duplicates_allowed:
            sentences.append(f"{self.repeats.total()} came twice")
        return sentences
