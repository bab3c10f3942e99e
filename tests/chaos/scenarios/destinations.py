"""Destinations that refuse, are slow, or have been deleted, next to healthy ones."""

import time

from app.dev.broker import Broker
from tests.chaos.neighbours import Neighbours
from tests.chaos.proxy import Proxy
from tests.chaos.run import Run
from tests.chaos.scenario import scenario
from tests.chaos.scenarios.brokers import down, in_sync, stop
from tests.chaos.supervisor import Supervisor
from tests.harness.account import pending_of
from tests.harness.kafka import Requests, create_topic, delete_topic, now_ms
from tests.harness.waiting import eventually

_SETTLE_S = 5.0
_BAD = 200
#: Time for them to be accepted before the first is due.
_ACCEPTED_MS = 10_000


@scenario("destinations are slow, away, deleted and too narrow: the others are on time", ci=())
def neighbours(run: Run) -> None:
    far = run.create_topic(f"{run.app_id}-to-far", 4)
    healthy = list(run.outs)
    run.outs.append(far)
    [broker] = run.cluster
    proxy = run.enter(proxy_to(run, broker))
    worker = run.worker("one", env={"DELAY_CLUSTERS": f"far={proxy.bootstrap}"}).start()
    worker.wait_ready()
    run.watch(Supervisor(run, worker))
    with run.traffic(330, outs=[*healthy * 5, far], clusters={far: "far"}) as traffic:
        _warm_up(run)
        others = Neighbours(run, healthy)
        others.before(run.sizes(4, 30))
        for number in range(run.sizes(1, 4)):
            for reason, config in (("unknown-topic", {}), ("too-large", {"max_message_bytes": "100"})):
                topic = send_to_bad(run, f"{reason}-{number}", **config)
                traffic.poisoned[reason] = traffic.poisoned.get(reason, 0) + _BAD
                if reason == "unknown-topic":
                    delete_topic(run.bootstrap, topic)
                run.did(f"{reason} destinations")
            proxy.delay(200, 500)
            run.did("destinations that take half a second")
            others.during(run.sizes(8, 20))
            proxy.refuse()
            run.did("destinations that are away")
            others.during(run.sizes(5, 20))
            proxy.heal()


# Three brokers and a bound on lateness want a machine of their own, which tests seldom have; and with transactions, two
# cores do not carry three brokers at the rate of the other scenarios.
@scenario(
    "a destination refuses what two of three brokers have: the others are on time", brokers=3, ci=(), partitions=4
)
def refusing_neighbour(run: Run) -> None:
    healthy = list(run.outs)
    run.outs.append(run.create_topic(f"{run.app_id}-to-refusing", 4, min_insync=3))
    worker = run.worker("one").start()
    worker.wait_ready()
    run.watch(Supervisor(run, worker))
    # Two transactions a message, each replicated several times: at 20 a second the three brokers alone take 1.1 to 1.6
    # of two cores, and at 40 messages are 0.3 s late before any fault.
    rate = 330 if run.guarantee == "at_least_once" else 10
    with run.traffic(rate, outs=[*healthy * 5, run.outs[-1]]):
        _warm_up(run)
        others = Neighbours(run, healthy)
        others.before(run.sizes(4, 30))
        # The other destinations have only Kafka's own pause while leaders change.
        with down(run, stop, run.cluster[-1]):
            time.sleep(_SETTLE_S)
            others.during(run.sizes(8, 120))
    in_sync(run)


def _warm_up(run: Run) -> None:
    """Wait until brokers that have just started are as quick as others: Java compiles frequent code later."""
    time.sleep(run.sizes(5, 60))


def proxy_to(run: Run, broker: Broker) -> Proxy:
    """Make a proxy for clients of a broker's other listener."""
    assert broker.node.detour is not None, "its clients cannot be sent through a proxy"
    target, port = broker.node.detour
    return Proxy(port, target, run.seed)


def send_to_bad(run: Run, name: str, **config: str) -> str:
    """Ask for deliveries to a topic of its own that will not get them, and return it when they are accepted."""
    topic = create_topic(run.bootstrap, f"{run.app_id}-to-{name}", 4, **config)
    requests = Requests(run.bootstrap, run.app_id)
    begin = now_ms() + _ACCEPTED_MS
    for number in range(_BAD):
        requests.schedule(f"{name}-{number}", begin + 30 * number, topic, b"-" * 200)
    requests.flush()
    eventually(lambda: pending_of(run.bootstrap, run.app_id)[topic] == _BAD, what="the acceptance of all requests")
    return topic
