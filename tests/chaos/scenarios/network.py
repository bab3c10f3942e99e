"""The network between workers and brokers is slow, breaks, and comes back."""

import time

from tests.chaos.proxy import Proxy, Way
from tests.chaos.run import Run
from tests.chaos.scenario import scenario
from tests.chaos.supervisor import Supervisor
from tests.harness.waiting import eventually
from tests.harness.worker import Worker

_SESSION_S = 6.0
_HEALED_S = 60.0
#: A worker has some tens of connections: more than this, and they leak.
_CONNECTIONS = 100


@scenario("latency with jitter, little bandwidth, and connections that are reset at random", ci=())
def poor_network(run: Run) -> None:
    worker, proxy = far_worker(run, "one")
    run.watch(Supervisor(run, worker))
    with run.traffic(100):
        for _ in run.rounds(1, 6):
            proxy.delay(50, 300)
            run.did("latency of 50 to 300 ms")
            rest(run, 8, 30)
            run.measure("most_connections", proxy.connections)
            run.expect(proxy.connections < _CONNECTIONS, f"{proxy.connections} connections are open")
            proxy.heal()
            proxy.limit(150_000)
            run.did("150 kB/s")
            rest(run, 4, 15)
            proxy.heal()
            for _ in run.rounds(10, 40):
                time.sleep(run.random.uniform(0.1, 1))
                proxy.reset(0.3)
                run.did("resets of a third of all connections")
        serves(worker)


@scenario("connections that stay open and carry nothing, in one direction or both, new ones too", ci=())
def half_open(run: Run) -> None:
    worker, proxy = far_worker(run, "one")
    run.watch(Supervisor(run, worker))
    with run.traffic(200):
        for number in run.rounds(2, 15):
            rest(run, 2, 4)
            ways = [(Way.BACK,), (Way.THERE,), tuple(Way)][number % 3]
            proxy.hold(ways)
            run.did(f"nothing {' or '.join(way.value for way in ways)}")
            time.sleep(run.random.uniform(1, 4) if run.short or number % 4 else 40)
            proxy.heal()
        serves(worker)


@scenario(
    "one of two workers cut off from the brokers, for less and for more than its session, and connected again",
    ci=(),
)
def cut_off(run: Run) -> None:
    near = run.worker("near").start()
    near.wait_ready()
    far, proxy = far_worker(run, "far")
    run.watch(Supervisor(run, near, far))
    with run.traffic(300):
        for number in run.rounds(2, 16):
            eventually(lambda: shares(run, near, far), _HEALED_S, "sharing")
            rest(run, 1, 3)
            longer = number % 2 == 0
            run.crashed(far)
            (proxy.refuse if number % 4 > 1 else proxy.hold)()
            run.did(f"cut off for {'more' if longer else 'less'} than the session")
            time.sleep(_SESSION_S + run.random.uniform(2, 8) if longer else run.random.uniform(1, _SESSION_S - 2))
            proxy.heal()
        eventually(lambda: shares(run, near, far), _HEALED_S, "sharing")
        serves(near)
        serves(far)


def far_worker(run: Run, name: str) -> tuple[Worker, Proxy]:
    """Run a worker that reaches the only broker through a proxy alone, and give both once it serves."""
    [broker] = run.cluster
    assert broker.node.detour is not None, "its clients cannot be sent through a proxy"
    target, port = broker.node.detour
    proxy = run.enter(Proxy(port, target, run.seed))
    worker = run.worker(name, bootstrap=proxy.bootstrap).start()
    worker.wait_ready()
    return worker, proxy


def shares(run: Run, *workers: Worker) -> bool:
    """Whether each worker has its share of the partitions."""
    return all(len(worker.assigned) == run.partitions // len(workers) for worker in workers)


def serves(worker: Worker) -> None:
    """Wait until a worker serves."""
    eventually(lambda: worker.ready()[0], _HEALED_S, "a worker's readiness")


def rest(run: Run, short_s: int, long_s: int) -> None:
    """Let `short_s` seconds pass in the short form, and `long_s` in the long one."""
    time.sleep(run.sizes(short_s, long_s))
