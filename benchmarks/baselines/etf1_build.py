"""etf1's scheduler, fetched and built with Go when it is first needed; etf1_module pins versions and hashes."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.errors import BaselineMissing

_MODULE = Path(__file__).with_name("etf1_module")
_PROGRAM = "github.com/etf1/kafka-message-scheduler/cmd/kafka"
#: Where Go's own installer puts it, which is often not on PATH.
_USUAL = "/usr/local/go/bin"
_LIMIT_S = 600


def scheduler() -> Path:
    """Return the program, built at most once for each set of versions. Raises BaselineMissing."""
    pins = hashlib.sha256((_MODULE / "go.mod").read_bytes() + (_MODULE / "go.sum").read_bytes()).hexdigest()
    program = _cache() / f"etf1-{pins[:16]}" / "kafka-message-scheduler"
    if not program.exists():
        _build(program)
    return program


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "punctual-benchmarks"


def _build(program: Path) -> None:
    go = shutil.which("go") or shutil.which("go", path=_USUAL)
    if go is None or shutil.which("gcc") is None:
        raise BaselineMissing("etf1", "go and gcc, which build it, on PATH")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as directory:
        binary = Path(directory, program.name)
        # Only versions in go.sum are used. cgo: the Kafka client is a C library, which the module includes.
        command = [go, "build", "-mod=readonly", "-trimpath", "-o", str(binary), _PROGRAM]
        env = {**os.environ, "CGO_ENABLED": "1", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
        try:
            build = subprocess.run(  # noqa: S603 - fixed but for where Go is
                command, cwd=_MODULE, env=env, capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise BaselineMissing("etf1", f"its Go modules, which could not be fetched in {_LIMIT_S} s") from error
        if build.returncode:
            last_line = (build.stderr.strip().splitlines() or ["no message"])[-1]
            raise BaselineMissing("etf1", f"its Go modules, which could not be fetched or built: {last_line}")
        binary.replace(program)
