"""The option `--processes` of `faust -A app worker`."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import click
from faust.cli.base import cli

from app.base.errors import PunctualError, SettingInvalid
from app.ops.multiprocess.plan import NAME, plan
from app.settings.settings import Settings
from app.settings.values import processes as processes_of

_OPTION: Final = "--processes"
_HELP: Final = (
    "Number of worker processes behind one address, or 'auto' for one per core. [env: DELAY_PROCESSES; default: 1]"
)


def install(settings: Settings) -> None:
    """Add the option to the worker's command; with more than one process, a supervisor replaces this process."""
    command = cli.commands["worker"]
    command.params.append(click.Option([_OPTION], metavar="N|auto", help=_HELP))
    command.callback = _several(settings, command.callback)


def _several(settings: Settings, alone: Callable[..., Any] | None) -> Callable[..., Any]:
    assert alone is not None, "Faust's command runs a worker"

    def start(*args: Any, processes: str | None, **options: Any) -> Any:
        try:
            count = settings.process.processes if processes is None else _count(processes)
            if count == 1:
                return alone(*args, **options)
            plan(count, settings, os.environ)
        except PunctualError as error:
            sys.exit(f"punctual: {error}")
        line = [sys.executable, "-m", "app.ops.multiprocess", str(count), *without_option(sys.argv[1:])]
        sys.stdout.flush()
        return os.execv(sys.executable, line)  # noqa: S606 - it replaces this process, and gets its signals

    return start


def _count(text: str) -> int:
    try:
        return processes_of(text)
    except ValueError as error:
        raise SettingInvalid(NAME, repr(text), f"'auto', or {error}") from error


def without_option(arguments: Sequence[str]) -> list[str]:
    """Return a command line without the option, as each process is started."""
    left, skip = [], False
    for argument in arguments:
        if not skip and argument != _OPTION and not argument.startswith(f"{_OPTION}="):
            left.append(argument)
        skip = not skip and argument == _OPTION
    return left
