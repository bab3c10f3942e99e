"""`python -m tests.chaos.cold_tier`: ids are cancelled and scheduled anew far in the future; the cold tier is killed.

A worker with a horizon, of which the first argument, if there is one, is the guarantee; the second, `short`, is for a
thousand messages instead of 20,000.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Self

from tests.chaos.cold_traffic import ColdTraffic
from tests.chaos.ground import Clusters
from tests.chaos.run import Run
from tests.chaos.scenario import GUARANTEES, Scenario
from tests.harness.hooked_pipeline import POINTS
from tests.harness.kafka import read

_HORIZON_S, _LEAD = 60, "PT45S"
_SCRIPT = Path(__file__).parents[1] / "harness" / "hooked_pipeline.py"
_TURN_S = 180.0
_KILLED = -9


class Tier:
    """Park and promote by turns, in a process of their own."""

    def __init__(self, run: Run) -> None:
        self._run, self.directory = run, run.directory / "cold"
        self._process: subprocess.Popen[bytes] | None = None
        self._log = (run.directory / "cold.log").open("ab")

    def start(self, point: str = "", hit: int = 1) -> None:
        """Start it, to be killed at a point."""
        where = ["--bootstrap", self._run.bootstrap, "--app-id", self._run.app_id, "--master", "local[2]"]
        words = ["cold", str(self.directory), "--lead", _LEAD, "--memory", "1g", *where]
        environment = os.environ | {"HOOK_CRASH_AT": point, "HOOK_CRASH_HIT": str(hit)}
        environment |= {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
        command = [sys.executable, str(_SCRIPT), *words]
        self._process = subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log)

    def crash(self, point: str, hit: int) -> None:
        """Start it, and wait until it was killed there."""
        self.start(point, hit)
        assert self._process is not None
        code = self._process.wait(_TURN_S)
        assert code == _KILLED, f"it ended with {code} instead of at {point}: {self.said()[-2000:]}"
        self._run.did(f"kill -9 at {point}")

    def said(self) -> str:
        """Return what it has said."""
        return (self._run.directory / "cold.log").read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._log.close()


def cold_tier(run: Run) -> None:
    """Cancel without a key and schedule anew beyond the horizon; kill park, compact and promote at named points."""
    env = {"DELAY_HORIZON": f"PT{_HORIZON_S}S", "DELAY_DEDUPE_WINDOW": "PT10M"}
    run.worker("worker", env=env).start().wait_ready()
    tier = run.enter(Tier(run))
    points = [f"{job}.{point}" for job in ("park", "promote", "compact") for point in POINTS[job]]
    far_ms = (1_000 * _HORIZON_S + 15_000, 1_000 * _HORIZON_S + 75_000)
    with run.traffic(run.sizes(25, 60), kind=ColdTraffic, far_ms=far_ms) as traffic:
        time.sleep(5)
        for _ in run.rounds(1, 1):
            for point in run.random.sample(points, run.sizes(3, len(points))):
                tier.crash(point, 1 if point.startswith("compact") else run.random.randint(1, 3))
        while len(traffic.stories) < run.sizes(1_000, 20_000):
            time.sleep(1)
    tier.start()
    run.afterwards.append(lambda: _once_each(run))


def _once_each(run: Run) -> None:
    """See that no id came twice: what is promoted twice has two sources."""
    came = Counter(record.header("delay-id") for out in run.outs for record in read(run.bootstrap, out))
    twice = [id_ for id_, copies in came.items() if copies > 1]
    run.expect(not twice, f"{len(twice)} ids came twice: {', '.join(twice[:5])}")
    events = Counter(record.value.split(b'"', 4)[3] for record in read(run.bootstrap, f"{run.app_id}-events"))  # type: ignore[union-attr]
    for kind in (b"parked", b"deferred", b"duplicate", b"stale"):
        run.measure(f"events {kind.decode()}", events[kind])


def main() -> int:
    """Run it; say what was done and what came out."""
    guarantees = [name for name in GUARANTEES if name in sys.argv] or GUARANTEES
    act, broken = Scenario("cold-tier", "the cold tier is killed", cold_tier), False
    with Clusters() as clusters:
        for guarantee in guarantees:
            with tempfile.TemporaryDirectory(prefix="punctual-chaos-") as directory:
                short = "short" in sys.argv
                result = act.run(clusters.of(1), Path(directory), guarantee, seed=1, short=short)
            sys.stdout.write(f"{json.dumps(result, indent=1)}\n")
            broken |= bool(result["faults"])
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
