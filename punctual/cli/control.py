"""What the commands share that change what holds for destinations."""

from collections.abc import Mapping
from typing import Any

from punctual.cli.api import Api, escaped
from punctual.cli.arguments import add_form, add_worker
from punctual.cli.exits import Exit
from punctual.cli.parser import Options, Parser
from punctual.cli.table import JSON, write_json
from punctual.cli.terminal import legible, write


def add_control(parser: Parser) -> None:
    """Take how to tell it, and which worker to ask."""
    add_form(parser)
    add_worker(parser)


def run_control(options: Options, act: str, body: Mapping[str, Any]) -> Exit:
    """Change it for the destination that options say, and tell what came of it. Raises a CommandError."""
    to = options.destination
    with Api.of(options) as api:
        answer = api.post(f"/destinations/{escaped(to)}/{act}", body)
        if "outcome" not in answer.body:
            raise api.failure(answer)
    if options.format == JSON:
        write_json({"destination": to, **answer.body})
    else:
        write(f"{legible(to)}: {legible(answer.body['sentence'])}")
    return Exit.DONE
