"""Brokers are killed, stopped and started again."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from app.dev.broker import Broker
from tests.chaos.run import Run
from tests.chaos.scenario import scenario
from tests.chaos.supervisor import Supervisor
from tests.harness.kafka import now_ms
from tests.harness.waiting import LIMIT_S, crowd, eventually

_HEALED_S = 60.0
#: The longest pause that a broker may cost that is killed and stays down: the broker's session, after which the cluster
#: elects leaders (9 s by default, 3 s here), and 3 s. The short form runs next to other tests, which take the cores. A
#: worker that waits for the broker is noticed: it stays down for 20 s.
_AWAY_MS, _LONGER_AWAY_MS = 12_000, 18_000
#: A broker that hangs for 20 s may hold other brokers up: these wait 30 s for its answer (request.timeout.ms).
_SILENT_MS = 50_000
_SETTLED_S = 5.0


@scenario("kill -9 and clean stops of the only broker, again and again", ci=())
def only_broker(run: Run) -> None:
    [broker] = run.cluster
    workers = run.two_workers()
    run.watch(Supervisor(run, *workers))
    with run.traffic(200):
        for number in run.rounds(3, 20):
            time.sleep(run.random.uniform(1, 4 if run.short else 8))
            with down(run, kill if number % 3 else stop, broker):
                time.sleep(run.random.uniform(0, 2 if number % 5 else 20))
        for worker in workers:
            eventually(lambda: worker.ready()[0], _HEALED_S, "a worker's readiness")  # noqa: B023 - called at once


@scenario(
    "kill -9 and clean stops of one of three brokers in turn, and of two at once", brokers=3, ci=("at_least_once",)
)
def three_brokers(run: Run) -> None:
    in_sync(run)  # another scenario may have ended brokers of this cluster just before
    workers = run.two_workers()
    run.watch(Supervisor(run, *workers))
    with run.traffic(200):
        time.sleep(3)
        check_replication(run)
        for number in run.rounds(2, 24):
            victims = run.random.sample(run.cluster, 1 if number % 4 else 2)
            victims = victims if number > 1 or not run.short else run.cluster[:2]
            with down(run, kill if number % 3 else stop, *victims):
                time.sleep(run.random.uniform(1, 4 if run.short else 8))
            in_sync(run)
        for worker in workers:
            eventually(lambda: worker.ready()[0], _HEALED_S, "a worker's readiness")  # noqa: B023 - called at once


@scenario(
    "one of three brokers killed and away for a minute, then one that does not answer for 20 s, each in turn",
    brokers=3,
    ci=("exactly_once",),
)
def broker_away(run: Run) -> None:
    in_sync(run)  # another scenario may have ended brokers of this cluster just before
    workers = run.two_workers()
    run.watch(Supervisor(run, *workers))
    limit_ms = _LONGER_AWAY_MS if run.short else _AWAY_MS
    with run.traffic(100):
        time.sleep(3)
        for broker in run.random.sample(run.cluster, run.sizes(1, 3)):
            with pause_of(run, "kill", limit_ms), down(run, kill, broker):
                time.sleep(run.sizes(20, 60))
        for broker in run.random.sample(run.cluster, run.sizes(0, 3)):
            with pause_of(run, "silence", _SILENT_MS), silent(run, broker):
                time.sleep(20)
    for worker in workers:
        eventually(lambda: worker.ready()[0], _HEALED_S, "a worker's readiness")  # noqa: B023 - called at once


@contextmanager
def pause_of(run: Run, what: str, limit_ms: int) -> Iterator[None]:
    """Measure the longest pause of a fault, and expect it to be within a limit."""
    began_ms = now_ms()
    yield
    in_sync(run)
    time.sleep(_SETTLED_S)
    ended_ms = now_ms()
    # Beside other tests, all that a cluster and a worker do after a fault takes longer.
    allowed_ms = round(limit_ms * crowd()) if run.short else limit_ms

    def measure() -> None:
        longest_ms = run.longest_ms(began_ms, ended_ms)
        run.measure(f"longest_pause_after_{what}_ms", longest_ms)
        run.expect(
            longest_ms <= allowed_ms, f"{what}: messages were {longest_ms} ms late, {allowed_ms} at most were expected"
        )

    run.afterwards.append(measure)


@contextmanager
def silent(run: Run, broker: Broker) -> Iterator[None]:
    """Stop a broker's process, which goes on to take connections, and let it go on when the block is left."""
    os.kill(broker.pid, signal.SIGSTOP)
    run.did("a broker that does not answer")
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def kill(broker: Broker) -> None:
    """Kill a broker with SIGKILL."""
    os.kill(broker.pid, signal.SIGKILL)
    broker.stop()


def stop(broker: Broker) -> None:
    """Stop a broker as its operator would."""
    broker.stop()


@contextmanager
def down(run: Run, how: Callable[[Broker], None], *brokers: Broker) -> Iterator[None]:
    """End brokers, at once, and start them again when the block is left."""
    what = "kill -9" if how is kill else "clean stops"
    began = time.monotonic()
    try:
        for broker in brokers:
            how(broker)
        run.did(f"{what} of {'a broker' if len(brokers) == 1 else f'{len(brokers)} brokers at once'}")
        yield
    finally:
        for broker in brokers:
            broker.launch()
        for broker in brokers:
            broker.wait()
        name = "longest_without_a_broker_ms" if len(brokers) == 1 else f"longest_without_{len(brokers)}_brokers_ms"
        run.measure(name, round((time.monotonic() - began) * 1000))


def in_sync(run: Run) -> None:
    """Wait until all replicas of all partitions are in sync."""
    admin = AdminClient({"bootstrap.servers": run.bootstrap, "log_level": 0})

    def all_are() -> bool:
        topics = admin.list_topics(timeout=30).topics.values()
        return all(set(p.isrs) == set(p.replicas) for topic in topics for p in topic.partitions.values())

    eventually(all_are, _HEALED_S, "all replicas' being in sync")


def check_replication(run: Run) -> None:
    """Check that all topics, Kafka's own included, have three replicas and need two acknowledgements."""
    admin = AdminClient({"bootstrap.servers": run.bootstrap, "log_level": 0})
    topics = admin.list_topics(timeout=30).topics
    own = {"__consumer_offsets"} | ({"__transaction_state"} if run.guarantee == "exactly_once" else set())
    wanted = own | {topic for topic in topics if topic.startswith(run.app_id)}
    assert own <= set(topics), f"{own} are not all there"
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic) for topic in wanted])
    for resource, answer in asked.items():
        least = answer.result(LIMIT_S)["min.insync.replicas"].value
        copies = {len(partition.replicas) for partition in topics[resource.name].partitions.values()}
        assert (copies, least) == ({3}, "2"), f"{resource.name} has {copies} replicas, {least} must confirm"
