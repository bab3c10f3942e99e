"""`faust -A app doctor`: checks an installation without changing it, and prints the findings."""

import asyncio
import os
import sys

import click
import msgspec

from app.base.process.library_logs import silent
from app.ops.doctor.acl_lines import FORMS, WHOSE
from app.ops.doctor.examination import Examination, examine
from app.settings.kafka import KafkaSettings
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
    """Examine the installation of the environment, print the findings, and exit with a code for the worst one."""
    settings = Settings.from_env()
    if acls is not None:
        click.echo(FORMS[acls](settings, _principal(settings.kafka, principal), WHOSE[acls_of](settings)))
        return
    with silent("aiokafka"):
        examination = asyncio.run(examine(settings, os.environ))
    click.echo(legible_json(as_json(examination)) if form == "json" else legible_lines(table(examination)))
    click.echo(legible_lines(summary(examination)), err=True)
    sys.exit(exit_code(examination))


def exit_code(examination: Examination) -> int:
    """Return 0 without errors, 1 with errors, 3 if our own cluster cannot be reached; warnings do not count."""
    if not examination.reached:
        return _UNREACHABLE
    return _FOUND if examination.level == "error" else 0


def _principal(kafka: KafkaSettings, given: str) -> str:
    """Return the principal of the permissions: `given`, or else the user of the settings."""
    principal = given or (f"User:{kafka.login.user}" if kafka.login.user else "")
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise click.UsageError("name the principal of the permissions, such as --principal User:punctual")
    return principal


_SIGNS = {"error": "\N{MULTIPLICATION SIGN}", "warning": "!", "ok": "\N{CHECK MARK}"}


def table(examination: Examination) -> str:
    """Return one line for each finding: sign, level, check and sentence."""
    rows = examination.findings
    wide = max((len(row.check) for row in rows), default=0)
    return "\n".join(f"{_SIGNS[row.level]} {row.level:<7}  {row.check:<{wide}}  {row.sentence}" for row in rows)


def summary(examination: Examination) -> str:
    """Return a sentence with the number of findings by level."""
    counts = {level: sum(row.level == level for row in examination.findings) for level in ("error", "warning", "ok")}
    if examination.level == "ok":
        return f"no problems found: {counts['ok']} checks passed"
    parts = ", ".join(
        f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items() if count and level != "ok"
    )
    return f"{parts}; {counts['ok']} checks passed"


def as_json(examination: Examination) -> str:
    """Return the examination in JSON, as GET /api/v1/findings has it."""
    return msgspec.json.format(msgspec.json.encode(examination), indent=2).decode()
