"""`python -m app.ops.multiprocess N ARGUMENTS`: `faust ARGUMENTS` in N processes. `--processes` starts this module."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from app.base.errors import PunctualError
from app.base.process import foreign_settings
from app.ops.multiprocess.front import Front
from app.ops.multiprocess.plan import plan
from app.ops.multiprocess.supervisor import Supervisor, say
from app.serve.web.guard import names_of
from app.settings.settings import Settings


def main(count: int, arguments: Sequence[str]) -> int:
    """Run a worker's processes until SIGTERM or SIGINT; return the exit code."""
    foreign_settings.drop()
    settings = Settings.from_env()
    return asyncio.run(_run(settings, count, [sys.executable, "-m", "faust", *arguments]))


async def _run(settings: Settings, count: int, command: Sequence[str]) -> int:
    supervisor = Supervisor(plan(count, settings, os.environ), command)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, supervisor.stop)
    names = names_of(settings.process.host, settings.process.url, settings.web.hosts)
    server = await Front(supervisor, names).serve(settings.process)
    ports = ", ".join(str(child.process.port) for child in supervisor.children)
    say(f"{count} processes, on ports {ports}, all reachable at {settings.process.url}")
    try:
        return await supervisor.run()
    finally:
        await server.stop()


if __name__ == "__main__":
    try:
        sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
    except PunctualError as error:
        sys.exit(f"punctual: {error}")
