"""The command `punctual`: sends requests to workers and Kafka, and starts the worker's own commands if installed."""

import importlib.util
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
  password     print a user's lines for the access file (DELAY_WEB_USERS_FILE)
  token        make a token for a program, and its lines for the access file
  access       check an access file, or convert files of an earlier version
  broker       run a Kafka for development on this machine until Ctrl-C (KAFKA_PORT, KAFKA_DATA)

{cli.overview()}

`punctual COMMAND --help` shows the options of a command."""
NO_WORKER = (
    "The worker is not installed. Install it, best in an environment of its own: "
    f"{install_command('punctual-kafka-worker')}."
)
#: The module of the worker for commands about the access file, which do not need Faust.
_ACCESS = "app.ops.access"


def main() -> int:
    """Run the command in the arguments, and return its exit code (punctual.cli.exits)."""
    return with_output(_main)


def _main() -> int:
    match sys.argv[1:]:
        case ["worker", *options]:
            _run("worker", options or ["-l", "info"])
        case ["doctor" | "repartition" as command, *options]:
            _run(command, options)
        case [("password" | "token" | "access") as command, *options]:
            _run_module(_ACCESS, [command, *options])
        case ["broker", *options]:
            _run_module("app.dev.broker", options)
        case ["--version"]:
            print(version("punctual-kafka"))  # noqa: T201 - the requested output
            return Exit.DONE
        case ["--help" | "-h"]:
            print(USAGE)  # noqa: T201 - the requested output
            return Exit.DONE
        case [name, *arguments] if not name.startswith("-"):
            return cli.run(name, arguments)
    print(USAGE, file=sys.stderr)  # noqa: T201 - a command reports on its standard error
    return Exit.WRONG_USE


def _run_module(name: str, options: list[str]) -> NoReturn:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # its package is not installed
        spec = None
    if spec is None:
        sys.exit(NO_WORKER)
    # -P: a package `app` in the current directory is not the worker's.
    os.execv(sys.executable, [sys.executable, "-P", "-m", name, *options])  # noqa: S606 - it may ask on the terminal


def _run(command: str, options: list[str]) -> NoReturn:
    try:
        version("punctual-kafka-worker")
    except PackageNotFoundError:
        sys.exit(NO_WORKER)
    line = [sys.executable, "-m", "faust", "-A", "app", command, *options]
    # Faust reads some variables by itself while it is imported: Kubernetes sets FAUST_PORT for a Service named `faust`.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("FAUST_", "F_"))}
    os.execve(sys.executable, line, env)  # noqa: S606 - the worker replaces this process, and gets its signals
