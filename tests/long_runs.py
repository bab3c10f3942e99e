"""`make test NAME=…` and `make chaos NAME=…`: single tests in their long form.

Environment variables override the defaults of each run, also in `make … SEEDS=1000`.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

_PYTEST = ("pytest", "-q", "-n", "0")
_LOGGING = ("--log-cli-level=INFO",)
_USAGE = 2


@dataclass(frozen=True, slots=True)
class LongRun:
    """A Python module that is run, its arguments, and the defaults of its environment variables."""

    command: tuple[str, ...]
    defaults: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> int:
        """Run it, and return its exit code."""
        environment = {**self.defaults, **{name: value for name, value in os.environ.items() if value}}
        command = [one.format_map(environment) for one in self.command]
        return subprocess.run([sys.executable, "-m", *command], env=environment, check=False).returncode


RUNS: Mapping[str, Mapping[str, LongRun]] = {
    "test": {
        # Workers on simulated brokers, disks and clocks, with many seeds.
        "simulation": LongRun(
            ("tests.simulation", "--seeds", "{SEEDS}", "--first", "{FIRST}"), {"SEEDS": "100000", "FIRST": "0"}
        ),
        # Other systems' own clients schedule messages: fetches the clients, needs Go and a JDK. RECORD=1 records them.
        "clients": LongRun(("pytest", "tests/integration/clients"), {"CLIENTS": "1"}),
        # The console in a browser above a million pending messages, each page saved.
        "console": LongRun(
            (*_PYTEST, "tests/integration/test_console.py"),
            {"CONSOLE_PENDING": "1000000", "SCREENSHOTS": "build/console"},
        ),
        # A thousand IDs are postponed for a minute, through a crash and a rebalance.
        "debounce": LongRun((*_PYTEST, *_LOGGING, "tests/integration/test_debounce.py"), {"PUNCTUAL_LONG": "1"}),
        # What producers and consumers see, on five versions of Kafka, with each guarantee (half an hour).
        "matrix": LongRun(
            ("tests.matrix", "--save", "--versions", "{VERSIONS}", "--guarantees", "{GUARANTEES}"),
            {"VERSIONS": "all", "GUARANTEES": "all"},
        ),
        # Ten minutes of 100 topics and URLs, some dead, slow or poisoned, and the lateness of the others.
        "neighbours": LongRun(
            (*_PYTEST, "-s", "tests/integration/test_http_neighbours.py"),
            {"NEIGHBOURS_S": "600"},
        ),
        # README as a newcomer follows it, from a clone to the first message, with the seconds of each step.
        "newcomer": LongRun(("tests.docs.newcomer",)),
        # Three destinations with rate limits and a backlog of 100,000, for two minutes with each guarantee.
        "rates": LongRun(
            (*_PYTEST, "tests/integration/test_rates.py", "-o", "log_cli=true", "-o", "log_cli_level=INFO"),
            {
                "RATES_BACKLOG": "100000",
                "RATES_SECONDS": "60",
                "RATES_CAPS": "500,200,300",
                "RATES_LATER_MS": "40",
            },
        ),
        # Quick tests of the pipeline on each version of Spark that has a Kafka connector: fetches Spark, 430 MB each.
        "spark": LongRun(("tests.pipeline.versions",)),
    },
    "chaos": {
        # An acknowledged queue whose consumers and workers are killed (ten minutes).
        "queue": LongRun(("tests.chaos.queue",)),
        # 500 messages a second through a gateway, with Kafka stopped, and both killed (four minutes).
        "gateway": LongRun((*_PYTEST, "-s", "tests/integration/test_gateway_faults.py"), {"GATEWAY_CHAOS": "1"}),
        # Ten interruptions at each point of Spark's writes, ten kills of each command, and 300 commits of two writers
        # at the same moment (an hour).
        "pipeline": LongRun(
            (*_PYTEST, *(f"tests/pipeline/test_{name}.py" for name in ("kills", "accidents", "tables"))),
            {"KILLS": "10", "COMMITS": "150"},
        ),
        # 20,000 IDs cancelled and scheduled again while park and promote are killed (half an hour).
        "cold": LongRun((*_PYTEST, *_LOGGING, "tests/pipeline/test_cold_of_worker.py"), {"COLD_IDS": "20000"}),
        # A million messages from 16 to 24 partitions, the command killed six times.
        "repartition": LongRun(
            (*_PYTEST, *_LOGGING, "tests/chaos/test_repartition.py"),
            {"REPARTITION_MESSAGES": "1000000", "REPARTITION_KILLS": "6"},
        ),
    },
}


def main(arguments: list[str]) -> int:
    """Run the test that the arguments name, as `test simulation`; return its exit code, 2 if there is none."""
    target, name = arguments
    if name not in RUNS[target]:
        sys.stderr.write(f"There is no `make {target} NAME={name}`. Use one of: {', '.join(RUNS[target])}.\n")
        return _USAGE
    return RUNS[target][name].start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
