"""`make test NAME=newcomer`: README from a clone to the first message of your own, with the seconds of each step.

Exit code 0: the message arrived in time; 1: a step failed, a port is taken, or it took longer. All files are removed.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.dev.broker.errors import PortTakenError
from app.dev.broker.ports import require_free
from tests.harness.document import Block, Reader, blocks, clone, turn

LIMIT_S = 180.0
PORTS = (9092, 6066)
#: The beginning of kcat's output for the message: key and value.
_ARRIVED = "customer-7: hello from the past ("


def main() -> int:
    """Walk the path once, and print how long each step took."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if shutil.which("kcat") is None:
        return _failed("README's message is sent with kcat: install it (a Debian package).")
    try:
        with turn():
            _require_free_ports()
            with _directory() as home:
                total_s = _walk(home, _cold(home) if options.cold else {})
            _require_free_ports()
    except (AssertionError, PortTakenError) as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        return _failed("Stopped; nothing is left running.")
    _say(total_s, "from the clone to the first message of one's own")
    return 0 if total_s <= options.limit else _failed(f"It may take {options.limit:g} s.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.newcomer", description=__doc__)
    parser.add_argument("--cold", action="store_true", help="with no package or jar that this machine has already")
    parser.add_argument(
        "--limit", type=float, default=LIMIT_S, metavar="S", help=f"seconds it may take (default: {LIMIT_S:g})"
    )
    return parser.parse_args()


def _require_free_ports() -> None:
    for port in PORTS:
        require_free(port)


@contextmanager
def _directory() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="punctual-newcomer-"))
    try:
        yield home
    finally:
        shutil.rmtree(home)


def _cold(home: Path) -> dict[str, str]:
    """Return the environment of somebody whose caches are empty."""
    empty = home / "home"
    empty.mkdir()
    return {"HOME": str(empty), "PIP_NO_CACHE_DIR": "1"}


def _walk(home: Path, env: dict[str, str]) -> float:
    """Do what README says, a command at a time, until the message is there; return the seconds it took."""
    began, tree = time.monotonic(), home / "punctual"
    with _timed("git clone"):
        clone(tree)
    with Reader(tree, **env) as reader:
        for command in _commands(tree / "README.md"):
            with _timed(command.partition("  #")[0].rstrip()):
                said = reader.run(Block("sh", command, ""))
            if _ARRIVED in said:
                return time.monotonic() - began
    raise AssertionError("README's commands have run, and none has shown the message.")


def _commands(readme: Path) -> list[str]:
    return [line for block in blocks(readme) if block.language == "sh" for line in block.code.splitlines()]


@contextmanager
def _timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    _say(time.monotonic() - began, what)


def _say(seconds: float, what: str) -> None:
    sys.stdout.write(f"{seconds:7.1f} s  {what}\n")
    sys.stdout.flush()


def _failed(sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
