"""The command `punctual`: it asks workers and Kafka, and starts a worker or its doctor where that is installed."""

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

from punctual.cli import main as cli
from punctual.cli.exits import Exit
from punctual.cli.output import with_output
from punctual.installing import install_command

USAGE = f"""usage: punctual [--help | --version] COMMAND [ARGUMENTS]

  worker       start a worker: options as for `faust worker`, settings from environment variables
  doctor       check an installation and report problems; needs the worker's settings
  repartition  increase the number of partitions, while the workers are stopped

{cli.overview()}

`punctual COMMAND --help` shows the options of a command."""
NO_WORKER = (
    "The worker is not installed. Install it, best in an environment of its own: "
    f"{install_command('punctual-kafka-worker')}."
)


def main() -> int:
    """Run what the arguments ask for, and return what to exit with (punctual.cli.exits)."""
    return with_output(_main)


def _main() -> int:
    match sys.argv[1:]:
        case ["worker", *options]:
            _run("worker", options or ["-l", "info"])
        case ["doctor" | "repartition" as command, *options]:
            _run(command, options)
        case ["--version"]:
            print(version("punctual-kafka"))  # noqa: T201 - this is what was asked for
            return Exit.DONE
        case ["--help" | "-h"]:
            print(USAGE)  # noqa: T201 - this is what was asked for
            return Exit.DONE
        case [name, *arguments] if not name.startswith("-"):
            return cli.run(name, arguments)
    print(USAGE, file=sys.stderr)  # noqa: T201 - a command reports on its standard error
    return Exit.WRONG_USE


def _run(command: str, options: list[str]) -> NoReturn:
    try:
        version("punctual-kafka-worker")
    except PackageNotFoundError:
        sys.exit(NO_WORKER)
    line = [sys.executable, "-m", "faust", "-A", "app", command, *options]
    # What Faust reads by itself while it is imported: Kubernetes sets FAUST_PORT for a Service named `faust`.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("FAUST_", "F_"))}
    os.execve(sys.executable, line, env)  # noqa: S606 - the worker takes this process's place, and so its signals
