"""Spark sessions with the Kafka connector, on this machine or in the cluster of spark-submit."""

import logging
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from pipeline import jvm, py4j_gateway
from pipeline.errors import ConnectorMissing, OptionInvalid
from pipeline.jars import DELTA, connector_jars
from pipeline.spark_errors import explained, java_ended

#: Spark listens on the loopback interface alone, and has as many shuffle partitions as one machine needs.
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    # The list of a table's files is small, and 50 tasks would take a second.
    "spark.databricks.delta.snapshotPartitions": "1",
    # VACUUM lists directories with as many tasks, by default 10,000, which takes a minute.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
#: Spark hides options with such a name, or such a text in their value, in its event log and its pages: Spark's own
#: patterns (https://spark.apache.org/docs/4.0.0/configuration.html, spark.redaction.regex), and private keys.
_REDACTED = "(?i)secret|password|token|access[.]?key|jaas|keystore|private key"
_ALWAYS = {
    "spark.redaction.regex": _REDACTED,
    "spark.sql.redaction.options.regex": f"{_REDACTED}|url",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # Each read has its own consumers, so keeping them and their fetched records for 5 minutes would only take memory.
    **{
        f"spark.kafka.consumer.{pool}.{setting}": "1s"
        for pool in ("cache", "fetchedData.cache")
        for setting in ("timeout", "evictorThreadRunInterval")
    },
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # headers of one name are common: see headers.py
    # Otherwise PySpark records the call site of each new column, with several calls to the JVM.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
#: `bulk` works without Delta Lake too, on a version of Spark that Delta Lake does not support yet.
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
#: These loggers write each error in an expression to stderr, as JSON with its stack; the pipeline prints a sentence.
_TALKATIVE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
#: Errors that Python raises when the JVM has ended.
_BROKEN = (PySparkException, Py4JError, OSError, EOFError)
#: Masters that run in the JVM of this command, which has Kafka's connector.
_ON_THIS_MACHINE = re.compile(r"local(\[[^\]]*\])?")
#: Seconds that a JVM whose connection is broken may take to end.
_END_S = 3.0


@contextmanager
def session(
    name: str,
    master: str = "local[*]",
    jars_dir: str | None = None,
    memory: str = "2g",
    log: str = "off",
    submit: Sequence[str] = (),
    **conf: str,
) -> Iterator[SparkSession]:
    """Return a session, which ends with the block.

    Under spark-submit it is spark-submit's session, and of the arguments only the configuration has an effect.
    Otherwise this starts a JVM, with the options in PYSPARK_SUBMIT_ARGS and in `submit`.

    Args:
        name: the name of the application.
        master: Spark's master.
        jars_dir: the directory of the connector's jars; None to fetch them from Maven Central.
        memory: the maximum heap of the JVM.
        log: the level from which on the JVM logs to stderr.
        submit: options of spark-submit, such as `--conf`, NAME=VALUE, `--packages`, NAMES.
        conf: Spark's configuration, with underscores for the dots in its keys.

    Raises JavaUnsupported, ConnectorMissing, or OptionInvalid for a master in a cluster, and turns errors of Spark in
    the block into InputUnreadable, OptionInvalid or SparkStopped.
    """
    inside = "PYSPARK_GATEWAY_PORT" in os.environ
    submit_options = [*([] if inside else _from_environment()), *submit]
    delta = _DELTA if inside or jars_dir or pyspark.__version__ in DELTA else {}
    defaults = _ALWAYS | delta | {key.replace("_", "."): value for key, value in conf.items()}
    settings = defaults | _configured(submit_options)
    for talkative in _TALKATIVE:
        PySparkLogger.getLogger(talkative).setLevel(logging.CRITICAL)
    if inside:
        with _in_sentences(None):
            yield _checked(_built(name, settings))
        return
    if not _ON_THIS_MACHINE.fullmatch(master):
        raise OptionInvalid(
            f"--master {master} is not on this machine. Give it to spark-submit, which starts this command there: see "
            f"docs/how-to/spark-clusters.md."
        )
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = _LOCAL | settings | {"spark.master": master}
    arguments = (*submit_options, *(part for item in settings.items() for part in ("--conf", "=".join(item))))
    with tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True) as directory:
        process = py4j_gateway.start(arguments, connector_jars(jars_dir), memory, Path(directory), log)
        try:
            with _in_sentences(process):
                spark = _built(name, settings)
                _work_in(spark, Path.cwd())
                yield _checked(spark)
        finally:
            _end(process)


def _from_environment() -> list[str]:
    """Return the options of spark-submit in PYSPARK_SUBMIT_ARGS."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    return words[:-1] if words[-1:] == ["pyspark-shell"] else words


def _configured(words: Sequence[str]) -> dict[str, str]:
    """Return the configuration in options of spark-submit. Raises OptionInvalid."""
    pairs = [second.partition("=") for first, second in pairwise(words) if first in ("--conf", "-c")]
    wrong = next((name for name, _, value in pairs if not name or not value), None)
    if wrong is not None:
        raise OptionInvalid(f"--conf {wrong} is not of the form NAME=VALUE.")
    return {name: value for name, _, value in pairs}


@contextmanager
def _in_sentences(process: "subprocess.Popen[bytes] | None") -> Iterator[None]:
    """Raise a PipelineError for each error of Spark in the block, while its JVM can still describe the error."""
    try:
        yield
    except _BROKEN as error:
        ended = _exit_code(process, error)
        if ended is not None:
            raise java_ended(ended) from error
        if not isinstance(error, PySparkException | Py4JError):
            raise
        raise explained(error) from error


def _exit_code(process: "subprocess.Popen[bytes] | None", error: Exception) -> int | None:
    """Return the exit code of the JVM; None if it still runs, or was not started by this process."""
    if process is None:
        return None
    from_java = isinstance(error, Py4JJavaError | PySparkException)
    lost = isinstance(error, Py4JError | ConnectionError | EOFError) and not from_java
    with suppress(subprocess.TimeoutExpired):
        return process.wait(_END_S if lost else 0)
    return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the session and its JVM if they still run."""
    with suppress(*_BROKEN):
        spark = SparkSession.getActiveSession()
        if spark is not None:
            spark.stop()
    with suppress(*_BROKEN):
        jvm.forget_gateway()
    py4j_gateway.stop(process)


def _built(name: str, settings: dict[str, str]) -> SparkSession:
    builder: SparkSession.Builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.appName(name).getOrCreate()
    jvm.keep_frequent_classes(spark)
    return spark


def _work_in(spark: SparkSession, directory: Path) -> None:
    """Resolve relative paths from `directory` instead of the working directory of the JVM."""
    files = jvm.packages(spark).org.apache.hadoop.fs
    files.FileSystem.getLocal(jvm.hadoop_configuration(spark)).setWorkingDirectory(files.Path(str(directory)))


def _checked(spark: SparkSession) -> SparkSession:
    try:
        java = jvm.packages(spark).java.lang
        java.Class.forName(
            "org.apache.spark.sql.kafka010.KafkaSourceProvider",
            True,  # noqa: FBT003 - Java's
            java.Thread.currentThread().getContextClassLoader(),
        )
    except Exception as error:
        raise ConnectorMissing(
            "Spark has no Kafka connector. Give spark-submit --packages "
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}, or its jars with --jars."
        ) from error
    return spark
