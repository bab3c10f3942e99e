"""The command `punctual`: it starts the worker where that is installed, and the worker's doctor."""

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

USAGE = """usage: punctual [--help | --version] {worker,doctor} [OPTIONS]

worker   start a worker; its options are those of `faust worker`, its settings are environment variables
doctor   say what is wrong with an installation; `punctual doctor --help` has its options"""
NO_WORKER = "The worker is not installed here: run `pip install punctual-worker`, best in an environment of its own."


def main() -> int:
    """Run what the arguments ask for; 0 is success, 2 a wrong use, 1 a worker that is not here."""
    arguments = sys.argv[1:]
    match arguments:
        case ["worker", *options]:
            _run("worker", options or ["-l", "info"])
        case ["doctor", *options]:
            _run("doctor", options)
        case ["--version"]:
            print(version("punctual"))  # noqa: T201 - this is what was asked for
            return 0
        case ["--help" | "-h"]:
            print(USAGE)  # noqa: T201 - this is what was asked for
            return 0
    print(USAGE, file=sys.stderr)  # noqa: T201 - a command reports on its standard error
    return 2


def _run(command: str, options: list[str]) -> NoReturn:
    try:
        version("punctual-worker")
    except PackageNotFoundError:
        sys.exit(NO_WORKER)
    line = [sys.executable, "-m", "faust", "-A", "app", command, *options]
    os.execv(sys.executable, line)  # noqa: S606 - the worker takes this process's place, and so its signals
