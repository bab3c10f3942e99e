"""Operators and supervisors: they start stopped workers again, and read the workers' last log lines."""

import time
from pathlib import Path

from tests.chaos.run import Run
from tests.harness.scan import check_image
from tests.harness.worker import Worker

_AGAIN_S = 1.0


def last_words(run: Run, worker: Worker, sentence: str, seconds: float = 60.0) -> int:
    """Wait until a worker has exited by itself, and check its reason in the log; return the milliseconds that took."""
    run.crashed(worker)
    began = time.monotonic()
    code = worker.wait_dead(seconds)
    said = [line for line in worker.log.splitlines() if "punctual: " in line]
    run.expect(code == 1, f"a worker ended with {code} instead of 1")
    run.expect(
        said and sentence in said[-1], f"a worker ended without saying {sentence!r}: {said or worker.log[-500:]}"
    )
    return int(1000 * (time.monotonic() - began))


def start_again(run: Run, worker: Worker, most: int = 2) -> int:
    """Start a worker until it serves, as a supervisor does; more than `most` ends are a crash loop. Gives how many."""
    ends = 0
    worker.start()
    while True:
        try:
            worker.wait_ready()
        except AssertionError:
            if worker.alive or ends == most:
                raise
            run.crashed(worker)
            worker.kill()
            ends += 1
            time.sleep(_AGAIN_S)
            worker.start()
        else:
            return ends


def compare(run: Run, worker: Worker) -> None:
    """Stop a worker, check its databases against the changelog, and start it again."""
    worker.stop()
    try:
        check_image(worker, run.bootstrap, run.directory / "image")
        run.did("databases compared with the changelog", len(worker.tables()))
    except AssertionError as error:
        run.expect(False, str(error)[:500])  # noqa: FBT003 - it did not hold
    worker.start().wait_ready()


def copy_of(run: Run, name: str) -> Path:
    """Return a place for a copy of a data directory."""
    return run.directory / f"{name}.copy"
