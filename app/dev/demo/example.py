"""`python -m app.dev.demo.example NAME`: runs a program of docs/examples with a Kafka and a worker."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from app.base.errors import PunctualError
from app.dev.broker import BrokerError
from app.dev.broker.ports import free_port
from app.dev.demo.installation import DemoInstallation, installation
from app.dev.demo.options import parse
from app.dev.demo.worker import DemoError

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
#: An example posts to its own server on this machine.
ALLOWED = {"DELAY_HTTP_DESTINATIONS": "http://127.0.0.1*"}


def names() -> list[str]:
    """Return the names of all examples."""
    return sorted(path.stem for path in EXAMPLES.glob("*.py") if "asyncio.run(" in path.read_text("utf-8"))


def main(arguments: list[str]) -> int:
    """Run an example; return its exit code, 1 if Kafka or a worker does not start, 2 for an unknown name."""
    if len(arguments) != 1 or arguments[0] not in names():
        _say(f"Choose an example: make run NAME={' or '.join(names())}")
        return 2
    _say("Starting Kafka and a worker (the first time, 45 MB of jars are fetched) ...")
    try:
        with installation(parse(["--port", str(free_port())]), _say, **ALLOWED) as place:
            for worker in place.workers:
                worker.start()
            asyncio.run(place.wait_ready())
            return _run(EXAMPLES / f"{arguments[0]}.py", place)
    except KeyboardInterrupt:
        return 0
    except (DemoError, BrokerError, PunctualError) as error:
        _say(str(error))
        return 1


def _run(program: Path, place: DemoInstallation) -> int:
    settings = {"KAFKA_BOOTSTRAP_SERVERS": place.settings.kafka.bootstrap, "DELAY_APP_ID": place.settings.topics.app_id}
    command = [sys.executable, str(program)]
    return subprocess.run(command, env={**os.environ, **settings}, check=False).returncode  # noqa: S603 - a file of ours


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
