"""The command line `faust -A app …`: Faust's worker, the commands of `punctual …`, and errors for all others."""

import functools
import sys
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource
from faust.cli.base import cli
from faust.cli.params import CaseInsensitiveChoice
from faust.cli.worker import worker as worker_command

from app.engine.banner import banner
from punctual.cli import main
from punctual.cli.registry import COMMANDS, CliCommand

_PROG = "faust -A app"

_HELP = """Punctual: delayed messages for Kafka, on time.

    `faust -A app worker -l info` runs a worker. Configure it with environment variables: docs/reference/settings.md.
    DELAY_DESTINATIONS lists the topics that it may deliver to. The other commands talk to a running worker:
    `faust -A app list` is `punctual list`, docs/reference/cli.md.
    """
_WORKER_HELP = """Run a worker until SIGTERM or Ctrl-C.

    Configure it with environment variables, at least KAFKA_BOOTSTRAP_SERVERS and DELAY_DESTINATIONS:
    docs/reference/settings.md. To scale out, start more workers; on the same machine, give each its own PORT.
    """
#: Options of Faust that are refused, and the settings to use instead.
_SETTINGS = {"web_port": "PORT", "web_bind": "HOST", "web_host": "HOST and WORKER_URL", "datadir": "DATADIR"}
_HIDDEN = {*_SETTINGS, "with_web", "web_transport", "json", "loop", "console_port"}
_INSTEAD = {
    "reset": (
        "To start with an empty data directory, stop the worker and move the directory (DATADIR) away. Keep it "
        "until the worker is ready again. It is a copy of the changelog, and the only copy if the changelog has "
        "lost records."
    ),
}
_SEE = "The console shows the pending messages (docs/how-to/see-what-is-pending.md)."


def install(*own: click.Command) -> None:
    """Replace Faust's commands in `faust -A app` with Punctual's and the commands in `own`.

    Must be called when the app is loaded, because Faust looks up the command after that.
    """
    cli.help = _HELP
    cli.commands["worker"].help = _WORKER_HELP
    for option in (*cli.params, *cli.commands["worker"].params):
        option.hidden = getattr(option, "hidden", False) or option.name in _HIDDEN
    for command in (cli, cli.commands["worker"]):
        command.callback = _without_hidden(command.callback)
    for name in cli.commands.keys() - {"worker"}:
        cli.commands[name] = _refused(name)
    cli.commands |= {command.name: _Passed(command) for command in COMMANDS}
    for command in own:
        cli.add_command(command)
    worker_command.banner = lambda self, _: banner(self.app.settings)
    CaseInsensitiveChoice.convert = _accept_level_names


def _without_hidden(run: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a command's callback that refuses Faust's options, because they would override our settings."""
    assert run is not None, "Faust's command does something"

    @functools.wraps(run)
    def checked(*args: Any, **options: Any) -> Any:
        context = click.get_current_context()
        given = [name for name in options if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        for name in _HIDDEN.intersection(given):
            instead = f"Set {_SETTINGS[name]}" if name in _SETTINGS else "Omit it"
            sys.exit(f"punctual: unknown option --{name.replace('_', '-')}. {instead}: docs/reference/settings.md.")
        return run(*args, **options)

    return checked


class _Passed(click.Command):
    """A command of `punctual …`: all its arguments go to the same code."""

    def __init__(self, command: CliCommand) -> None:
        super().__init__(command.name, short_help=command.summary, callback=self._run, add_help_option=False)
        self._arguments: list[str] = []

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave all arguments to the command."""
        self._arguments = list(args)
        return super().parse_args(ctx, [])

    def _run(self) -> None:
        sys.exit(main.run(str(self.name), self._arguments, _PROG))


def _refused(name: str) -> click.Command:
    """Return a command that exits with an error message for an unknown command, whatever its arguments."""

    def refuse() -> None:
        sys.exit(f"punctual: unknown command {name!r}. {_INSTEAD.get(name, _SEE)}")

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, callback=refuse, hidden=True, add_help_option=False, context_settings=anything)


_convert: Callable[..., Any] = CaseInsensitiveChoice.convert


def _accept_level_names(self: CaseInsensitiveChoice, value: str, param: Any, ctx: Any) -> Any:
    """Convert Python's level names too: Faust's command line knows `-l warn`, not `-l warning` (cli/base.py:123)."""
    return _convert(self, {"warning": "warn", "critical": "crit"}.get(value.lower(), value), param, ctx)
