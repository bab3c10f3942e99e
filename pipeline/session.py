"""Spark sessions with the Kafka connector: on this machine, or in the cluster that spark-submit has chosen."""

import logging
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from pipeline import py4j_gateway
from pipeline.errors import ConnectorMissing
from pipeline.jars import connector_jars
from pipeline.spark_errors import explained, java_ended

#: Everything on the loopback interface, times in UTC, as many shuffle partitions as a machine has use for.
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}
#: Of an option with such a name, or such a text in its value, Spark shows nothing in its log of events and its pages:
#: its own patterns (https://spark.apache.org/docs/4.0.0/configuration.html, spark.redaction.regex), and private keys.
_REDACTED = "(?i)secret|password|token|access[.]?key|jaas|keystore|private key"
_ALWAYS = {
    "spark.redaction.regex": _REDACTED,
    "spark.sql.redaction.options.regex": f"{_REDACTED}|url",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # Each reading has consumers of its own: there is no use in keeping them, and all that they have fetched, for 5 min.
    **{
        f"spark.kafka.consumer.{pool}.{setting}": "1s"
        for pool in ("cache", "fetchedData.cache")
        for setting in ("timeout", "evictorThreadRunInterval")
    },
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # headers of one name are common: see headers.py
    # Else each column that is made notes where: several calls to the JVM for one.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
#: They write each error in an expression to stderr, as a line of JSON with its stack; we say it in a sentence.
_TALKATIVE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
#: What Python sees of a JVM that has ended.
_BROKEN = (PySparkException, Py4JError, OSError, EOFError)
#: So long a JVM whose connection is broken may take to end.
_END_S = 3.0


@contextmanager
def session(
    name: str,
    master: str = "local[*]",
    jars_dir: str | None = None,
    memory: str = "2g",
    log: str = "off",
    **conf: str,
) -> Iterator[SparkSession]:
    """Return a session called `name`, which ends with the block.

    Under spark-submit it is that one's, and `master`, `jars_dir`, `memory` and `log` are its options, not ours.
    Otherwise a JVM is started here, whose heap is `memory`, and whose log is on stderr from the level `log` on; keys of
    `conf` have underscores for dots.

    Raises JavaUnsupported or ConnectorMissing; for what Spark raises in the block InputUnreadable or SparkStopped.
    """
    settings = _ALWAYS | {key.replace("_", "."): value for key, value in conf.items()}
    for talkative in _TALKATIVE:
        PySparkLogger.getLogger(talkative).setLevel(logging.CRITICAL)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        with _in_sentences(None):
            yield _checked(_built(name, settings))
        return
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = _LOCAL | settings | {"spark.master": master}
    with tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True) as directory:
        process = py4j_gateway.start(settings, connector_jars(jars_dir), memory, Path(directory), log)
        try:
            with _in_sentences(process):
                spark = _built(name, settings)
                _work_in(spark, Path.cwd())
                yield _checked(spark)
        finally:
            _end(process)


@contextmanager
def _in_sentences(process: "subprocess.Popen[bytes] | None") -> Iterator[None]:
    """Say what Spark raises in a sentence, while its Java is there to be asked. Raises PipelineError."""
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
    """Return how the JVM has ended; None if it still runs, or is not ours."""
    if process is None:
        return None
    from_java = isinstance(error, Py4JJavaError | PySparkException)
    lost = isinstance(error, Py4JError | ConnectionError | EOFError) and not from_java
    with suppress(subprocess.TimeoutExpired):
        return process.wait(_END_S if lost else 0)
    return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the session and its JVM, as far as they are still there."""
    with suppress(*_BROKEN):
        spark = SparkSession.getActiveSession()
        if spark is not None:
            spark.stop()
    with suppress(*_BROKEN):
        _forget_gateway()
    py4j_gateway.stop(process)


def _built(name: str, settings: dict[str, str]) -> SparkSession:
    builder: SparkSession.Builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.appName(name).getOrCreate()


def _work_in(spark: SparkSession, directory: Path) -> None:
    """Have relative paths begin at `directory`, not where the JVM runs."""
    files = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr, unused-ignore]  # noqa: SLF001 - PySpark has no public way
    conf = spark._jsc.hadoopConfiguration()  # noqa: SLF001
    files.FileSystem.getLocal(conf).setWorkingDirectory(files.Path(str(directory)))


def _checked(spark: SparkSession) -> SparkSession:
    try:
        spark._jvm.java.lang.Class.forName(  # type: ignore[union-attr, unused-ignore]  # noqa: SLF001 - PySpark has no public way
            "org.apache.spark.sql.kafka010.KafkaSourceProvider",
            True,  # noqa: FBT003 - Java's
            spark._jvm.java.lang.Thread.currentThread().getContextClassLoader(),  # type: ignore[union-attr, unused-ignore]  # noqa: SLF001
        )
    except Exception as error:
        raise ConnectorMissing(
            "Spark has no Kafka connector. Give spark-submit --packages "
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}, or its jars with --jars."
        ) from error
    return spark


def _forget_gateway() -> None:
    """Let the next session of this process start its own JVM: PySpark keeps the first one's for good."""
    from pyspark import SparkContext  # noqa: PLC0415 - beside what it is used for

    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no public way
    SparkSession._instantiatedSession = None  # noqa: SLF001
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    if gateway is not None:
        gateway.shutdown()
