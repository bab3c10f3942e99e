"""`faust -A app doctor`: what is wrong with an installation, without changing anything."""

import asyncio
import os
import sys

import click

from app.base.process.library_logs import silent
from app.ops.doctor import render
from app.ops.doctor.acl_lines import FORMS, WHOSE
from app.ops.doctor.examination import Examination, examine
from app.settings.settings import Settings
from punctual.cli.terminal import legible_json, legible_lines

_HELP = """Check brokers, topics, permissions, clocks, workers, disk and settings. Changes nothing.

Run it with a worker's environment. Exit codes: 0 no errors (warnings are possible); 1 errors; 2 wrong use; 3 the
cluster cannot be reached. docs/reference/doctor.md lists all checks.
"""
_FOUND, _UNREACHABLE = 1, 3


@click.command("doctor", help=_HELP)
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--acls", type=click.Choice(list(FORMS)), help="Only print the required permissions (ACLs).")
@click.option(
    "--acls-of", type=click.Choice(list(WHOSE)), default="worker", show_default=True, help="Whose permissions to print."
)
@click.option("--principal", default="", help="Principal for --acls, such as User:punctual.")
def doctor(form: str, acls: str | None, acls_of: str, principal: str) -> None:
    """Examine the installation of the environment, and end with a code that says how it stands."""
    settings = Settings.from_env()
    if acls is not None:
        click.echo(FORMS[acls](settings, _principal(settings, principal), WHOSE[acls_of](settings)))
        return
    with silent("aiokafka"):
        found = asyncio.run(examine(settings, os.environ))
    click.echo(legible_json(render.as_json(found)) if form == "json" else legible_lines(render.table(found)))
    click.echo(legible_lines(render.summary(found)), err=True)
    sys.exit(exit_code(found))


def exit_code(examination: Examination) -> int:
    """Return 0 if nothing is wrong but warnings, 1 if there are errors, 3 if our cluster cannot be reached."""
    if not examination.reached:
        return _UNREACHABLE
    return _FOUND if examination.level == "error" else 0


def _principal(settings: Settings, given: str) -> str:
    """Return whom rights are for: who is named, or the user of the settings."""
    principal = given or (f"User:{settings.login.user}" if settings.login.user else "")
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise click.UsageError("name the principal of the permissions, such as --principal User:punctual")
    return principal
