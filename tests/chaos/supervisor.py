"""Starts workers again that have ended themselves, as in production."""

import sys

from tests.chaos.run import Run
from tests.harness.background import Background
from tests.harness.worker import Worker

_LOOK_S = 0.2
_AGAIN_S = 1.0


class Supervisor(Background):
    """Watches workers while its `with` block lasts; each that fails is started again a second later, and counted."""

    def __init__(self, run: Run, *workers: Worker) -> None:
        super().__init__()
        self._run, self._workers = run, workers

    def _work(self) -> None:
        while not self._over.wait(_LOOK_S):
            for worker in self._workers:
                if worker.failed:
                    self._again(worker)

    def _again(self, worker: Worker) -> None:
        self._run.crashed(worker)
        self._run.did("workers that ended themselves")
        print(_last_words(worker), file=sys.stderr)  # noqa: T201 - worth knowing in any case
        worker.kill()  # tidies up after it
        if not self._over.wait(_AGAIN_S):
            worker.start()


def _last_words(worker: Worker) -> str:
    said = [line for line in worker.log.splitlines() if line.startswith("punctual: ") or "CRITICAL" in line]
    return said[-1] if said else worker.log[-2_000:]
