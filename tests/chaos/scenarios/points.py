"""Workers die at each point of the order of operations."""

from tests.chaos.run import Run
from tests.chaos.scenario import scenario
from tests.harness.points import EXACT_POINTS, POINTS

_LOST = 0.2


@scenario("SIGKILL at every named point of the order of operations; a fifth of the times the disk is lost too")
def crash_points(run: Run) -> None:
    worker = run.worker("worker").start()
    worker.wait_ready()
    points = POINTS if run.guarantee == "at_least_once" else EXACT_POINTS
    with run.traffic(200):
        for _ in run.rounds(1, 20):
            for point in run.random.sample(points, len(points)):
                worker.kill()
                if run.random.random() < _LOST:
                    worker.wipe()
                worker.crash_at, worker.crash_hit = point, run.random.randint(1, 20)
                worker.start().wait_crashed()
                run.crashed(worker)
                run.did(point)
                worker.crash_at = None
                worker.start()
        worker.wait_ready()
