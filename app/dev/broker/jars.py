"""Kafka's jars: resolved from Maven Central by jgo, cached, and checked against pinned SHA-256 sums."""

import fcntl
import hashlib
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from app.dev.broker.errors import INSTALL_DEV, JarsUnavailableError
from app.dev.broker.waiting import Say, silently, telling

DEFAULT_VERSION = "4.3.0"
# Kafka's scripts put a binding to Log4j on the classpath, but no jar of Kafka depends on it; without it there is no
# log. It is resolved separately: otherwise Log4j's dependency management takes Kafka's client jar down to 3.9.
LOG_BINDING = "log4j-slf4j-impl"
LOG_BINDING_VERSION = "2.25.4"
#: The checksums of the jars of each version.
RELEASES = Path(__file__).with_name("releases")


def kafka_version() -> str:
    """Return the version in KAFKA_VERSION, or else the default.

    Raises:
        JarsUnavailableError: its jars are not pinned.
    """
    version = os.environ.get("KAFKA_VERSION") or DEFAULT_VERSION
    if version not in (known := versions()):
        raise JarsUnavailableError(f"KAFKA_VERSION is {version!r}. Set it to one of {', '.join(known)}.")
    return version


def versions() -> list[str]:
    """Return the versions of Kafka whose jars are pinned, oldest first."""
    names = (path.name.removesuffix(".sha256") for path in RELEASES.glob("*.sha256"))
    return sorted(names, key=lambda version: [int(part) for part in version.split(".")])


def kafka_jars(say: Say = silently) -> list[Path]:
    """Return the jars of a Kafka broker, fetching them (45 MB) the first time; sorted by name.

    Args:
        say: called now and then with the progress.

    Raises:
        JarsUnavailableError: they could not be fetched, or differ from the pinned ones.
    """
    version = kafka_version()
    with one_at_a_time(), _Fetched().heard() as fetched, telling(say, fetched.so_far):
        jars = _resolve(version)
        verify(jars, read_sums(version))  # in the lock, because resolving rewrites the files
    return jars


def read_sums(version: str) -> dict[str, str]:
    """Return the pinned SHA-256 sum of each jar of a version, by file name."""
    pairs = (line.split() for line in (RELEASES / f"{version}.sha256").read_text("ascii").splitlines())
    return {name: sum_ for sum_, name in pairs}


def verify(jars: list[Path], sums: dict[str, str]) -> None:
    """Check that exactly the pinned jars are there, byte for byte.

    Raises:
        JarsUnavailableError: naming the first jar that differs, is missing or is not pinned.
    """
    missing = sums.keys() - {jar.name for jar in jars}
    if missing:
        raise JarsUnavailableError(f"Kafka's jar {min(missing)} was not resolved. {_start_over(jars)}")
    for jar in jars:
        if hashlib.sha256(jar.read_bytes()).hexdigest() != sums.get(jar.name):
            raise JarsUnavailableError(
                f"{jar} does not match its checksum (app/dev/broker/releases). {_start_over(jars)}"
            )


def _resolve(version: str) -> list[Path]:
    try:
        import jgo  # noqa: PLC0415 - 0.2 s that only starting a broker should pay
    except ImportError as error:
        raise JarsUnavailableError(f"The development broker needs the extra `dev`. {INSTALL_DEV}.") from error
    try:
        jars = [Path(jar) for jar in jgo.build(f"org.apache.kafka:kafka_2.13:{version}").all_jars]
        logging = jgo.build(f"org.apache.logging.log4j:{LOG_BINDING}:{LOG_BINDING_VERSION}").all_jars
    except Exception as error:
        raise JarsUnavailableError(
            f"Kafka {version} could not be fetched from Maven Central: {_first_line(error)}. Connect this "
            "machine to the internet (once: the jars are cached), or set KAFKA_BOOTSTRAP_SERVERS to a running Kafka."
        ) from error
    # Kafka 4.0 and older do not depend on Log4j 2.
    own = {_artifact(jar) for jar in jars}
    jars += [Path(jar) for jar in logging if _artifact(Path(jar)) not in own]
    return sorted(jars, key=lambda jar: jar.name)


def _artifact(jar: Path) -> str:
    """Return a jar's name without its version."""
    return re.split(r"-\d", jar.name, maxsplit=1)[0]


class _Fetched(logging.Handler):
    """Counts the files that jgo fetches, by its log lines, which are its only report."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    @contextmanager
    def heard(self) -> Iterator[Self]:
        """Handle jgo's log records, which stay out of other logs."""
        log = logging.getLogger("jgo.maven._resolver")
        before = log.level, log.propagate
        log.level, log.propagate = logging.DEBUG, False
        log.addHandler(self)
        try:
            yield self
        finally:
            log.removeHandler(self)
            log.level, log.propagate = before

    def emit(self, record: logging.LogRecord) -> None:
        self._count += record.getMessage().startswith("Downloaded")

    def so_far(self, seconds: float) -> str:
        """Return the progress as a sentence."""
        return f"Fetching Kafka from Maven Central: {self._count} files so far, {seconds:.0f} s ..."


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold a lock that keeps other processes of this user from resolving."""
    # Two processes that fill the cache at once would read each other's half-written files. Each user has a cache, and
    # may not write to the files of others.
    name = f"punctual-jars-{os.getuid()}.lock"
    with Path(tempfile.gettempdir(), name).open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _start_over(jars: list[Path]) -> str:
    where = f" in {jars[0].parent.parent}" if jars else ""
    return f"Delete jgo's cached copy{where} and ~/.m2/repository/org/apache/kafka, then start again."
