"""Teams of one run, by seed: inputs with namespaces, ids that they share, attempts at each other's, and quotas."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from app.engine.ingest.quotas import Quotas
from app.engine.reports.reader import ProgressReader
from app.settings.settings import Settings
from punctual.contract.home import home_partition
from tables.counts import display_name
from tests.simulation.loop import EPOCH_MS
from tests.simulation.workload import Ask, Headers

if TYPE_CHECKING:
    from tables import DelayTable
    from tests.simulation.broker import Broker
    from tests.simulation.evidence import Evidence
    from tests.simulation.worker import Worker

#: The share of runs with teams, and the share with quotas among them.
_SHARE, _LIMITED = 0.2, 0.5
#: How often a worker reads the others' reports.
_HEAR_S = 0.5
INPUTS = {"orders": "orders-delays", "billing": "billing-delays"}


def _begun(seed: int) -> tuple[random.Random, dict[str, str]]:
    rnd = random.Random(f"teams {seed}")  # noqa: S311 - the same run for the same seed
    if rnd.random() >= _SHARE:
        return rnd, {}
    env = {
        "DELAY_INPUTS": ",".join(f"{topic}=native" for topic in INPUTS.values()),
        "DELAY_NAMESPACES": ",".join(f"{topic}={name}" for name, topic in INPUTS.items()),
    }
    if rnd.random() < _LIMITED:
        env["DELAY_QUOTAS"] = f"*=messages:{rnd.randint(1, 2)}"
    return rnd, env


def settings_of_teams(seed: int) -> dict[str, str]:
    """Return the settings that teams need; none in most runs."""
    return _begun(seed)[1]


def teams(seed: int, settings: Settings, span_s: float, destinations: dict[str, int]) -> list[Ask]:
    """Make up the teams' requests; the rest of the workload stays as it is."""
    rnd, env = _begun(seed)
    return list(_Author(rnd, settings, span_s, sorted(destinations)).write()) if env else []


class _Author:
    """Makes up requests of teams: all teams use the same ids."""

    def __init__(self, rnd: random.Random, settings: Settings, span_s: float, destinations: list[str]) -> None:
        self._rnd, self._settings, self._span_s, self._destinations = rnd, settings, span_s, destinations

    def write(self) -> Iterator[Ask]:
        rnd = self._rnd
        for number in range(rnd.randint(3, 6)):
            at_s = rnd.uniform(0, self._span_s)
            for team in INPUTS:
                if rnd.random() < 0.8:
                    yield self._schedule(team, f"t{number}", at_s + rnd.uniform(0, 0.3))
                if rnd.random() < 0.6:
                    other = next(name for name in INPUTS if name != team)
                    yield self._order(team, f"t{number}", at_s + rnd.uniform(0.1, 1.0))
                    yield self._order(team, f"{other}/t{number}", at_s + rnd.uniform(0.1, 1.0))
            if rnd.random() < 0.3:
                yield self._schedule("billing", f"orders/t{number}", at_s + rnd.uniform(0, 0.5))

    def _schedule(self, team: str, id_: str, at_s: float) -> Ask:
        rnd = self._rnd
        due = EPOCH_MS + round((at_s + rnd.choice((0.4, 0.8, 1.2, 2.0))) * 1_000)
        headers: Headers = [
            ("delay-to", rnd.choice(self._destinations).encode()),
            ("delay-at", b"%d" % due),
            ("users", team.encode()),
        ]
        return self._ask(team, id_, at_s, "schedule", due, headers, team.encode())

    def _order(self, team: str, id_: str, at_s: float) -> Ask:
        rnd, due = self._rnd, None
        op = rnd.choice(("cancel", "cancel", "reschedule", "deliver-now"))
        headers: Headers = [("delay-op", op.encode())]
        if op == "reschedule":
            due = EPOCH_MS + round((at_s + rnd.uniform(0.3, 1.5)) * 1_000)
            headers.append(("delay-at", b"%d" % due))
        return self._ask(team, id_, at_s, op, due, headers, None)

    def _ask(
        self, team: str, id_: str, at_s: float, op: str, due: int | None, headers: Headers, value: bytes | None
    ) -> Ask:
        """Say it by either name of the id."""
        rnd, settings = self._rnd, self._settings
        full = f"{team}/{id_}"
        headers.append(("delay-id", (full if rnd.random() < 0.3 else id_).encode()))
        home = home_partition(full, settings.topics.inputs, settings.topics.partitions)
        partition = rnd.randrange(settings.topics.partitions) if rnd.random() < 0.4 else home
        return Ask(at_s, partition, op, full, due, headers, None, value, input=INPUTS[team])


class Following:
    """A worker's reader of others' reports, a while after they were written."""

    def __init__(self, broker: "Broker", settings: Settings) -> None:
        """Begin before the first report."""
        self._broker, self._settings, self._topic, self._offset = broker, settings, settings.topics.progress, 0
        self._reader = ProgressReader("", settings.topics.progress)

    def quotas(self, table: "DelayTable", now: Callable[[], float]) -> Quotas | None:
        """Return the quotas of a worker that hears this, None if it has none."""
        if not self._settings.topics.quotas:
            return None
        return Quotas(self._settings.topics, table.stores, table.progress, self._reader.reports, now)

    async def run(self) -> None:
        """Read new reports until cancelled."""
        while True:
            self._listen()
            await asyncio.sleep(_HEAR_S)

    def _listen(self) -> None:
        for batch in self._broker.logs[self._topic][0].read(self._offset, committed=True)[0]:
            self._offset = batch.end
            for record in () if batch.control else batch.records(self._topic, 0):
                self._reader.absorb(record.key, record.value, record.offset, batch.at_ms)


def look(worker: "Worker") -> None:
    """Note how many messages of each namespace a worker holds at most, and whether its table has counted right.

    Messages that will be replaced when they are sent are left out: their number is not limited.
    """
    held, of_id = dict[str, int](), worker.namespaces.of_id
    for number, store in worker.table.stores.items():
        rows, places = dict[str, int](), dict[str, set[str]]()
        for _, entry in store.rows():
            if entry.to:
                places.setdefault(of_id(entry.id), set()).add(display_name(entry.to))
            if name := of_id(entry.id):
                rows[name] = rows.get(name, 0) + 1
                held[name] = held.get(name, 0) + (entry.url is None and not entry.replaced)
        assert store.shares is not None, "there are namespaces"
        counted = {name: share.messages for name, share in store.shares.known.items() if share.messages}
        recalled = {name: share.remembered for name, share in store.shares.known.items() if share.remembered}
        marks = Counter(name for key, _ in store.marks() if (name := of_id(key[1:].decode())))
        held_by = {sender: set(destinations) for sender, destinations in store.shares.destinations.items()}
        checks: tuple[tuple[object, object], ...] = (counted, rows), (held_by, places), (recalled, dict(marks))
        for found, there in checks:
            if found != there:
                worker.miscounted = f"{worker.name} has counted {found} in partition {number}, and holds {there}"
    for name, count in held.items():
        worker.most[name] = max(count, worker.most.get(name, 0))


def beyond_quota(evidence: "Evidence") -> Iterator[str]:
    """Return a sentence for each namespace with more pending messages than its quota.

    A worker knows exactly its own messages; messages that it takes over from others may have been admitted while the
    workers had not read each other's reports.
    """
    world = evidence.world
    calm = evidence.calm and world.plan.workers == 1
    for name, quota in world.settings.topics.quotas.items():
        most = (quota.messages or 0) * (1 if calm else len(world.workers))
        for worker in world.workers:
            for namespace, count in worker.most.items():
                if count > most:
                    yield f"{worker.name} has held {count} messages of {namespace}, of {quota.messages} ({name})"


def miscounted(evidence: "Evidence") -> Iterator[str]:
    """Return a sentence for each worker whose table has counted otherwise than its rows are."""
    return (worker.miscounted for worker in evidence.world.workers if worker.miscounted)
