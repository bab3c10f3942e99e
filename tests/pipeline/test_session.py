"""A session resolves paths in the working directory of the user, leaves no files there, and logs no secrets."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

#: Writes and reads a topic with the secrets of a login, as the pipeline's commands do; PYSPARK_SUBMIT_ARGS turns on the
#: log of Spark's events.
_LOGGED = """
import sys
from pyspark.sql import functions as F
from pipeline.kafka import Kafka
from pipeline.session import session

bootstrap, topic = sys.argv[1:]
secrets = {
    "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----MIIEvQ-ONE",
    "sasl.jaas.config": "module required x=MIIEvQ-TWO;",
}
options = ("--packages", "org.apache.commons:commons-pool2:2.12.0", "--conf", "spark.sql.shuffle.partitions=3")
with session("t", "local[1]", memory="512m", submit=options) as spark:
    kafka = Kafka(bootstrap, secrets)
    headers = F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers")
    kafka.write(spark.range(1).select(F.lit(b"k").alias("key"), F.lit(b"v").alias("value"), headers), topic)
    print(kafka.read(spark, topic, {}, {0: 1}).count())
    jars = spark.sparkContext.getConf().get("spark.jars")
    print(spark.conf.get("spark.sql.shuffle.partitions"), "commons-pool2" in jars)
"""


def test_relative_paths_start_at_the_working_directory_and_spark_leaves_no_files_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    files_before, directory = set(Path().iterdir()), Path(os.path.relpath(tmp_path))

    spark.range(3).write.parquet(str(directory / "rows"))

    assert spark.read.parquet(str(directory / "rows")).count() == 3
    assert list(tmp_path.glob("rows/*.parquet"))
    assert set(Path().iterdir()) <= files_before
    java_directory = spark._jvm.java.lang.System.getProperty("java.io.tmpdir")  # type: ignore[union-attr, unused-ignore]
    assert Path(java_directory) != Path(tempfile.gettempdir()), "a killed JVM leaves its files in its own directory"


@pytest.mark.usefixtures("spark")
def test_columns_are_made_without_looking_up_classes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    monkeypatch.setattr(JVMView, "__getattr__", lambda _, name: looked_up.append(name))

    assert str(F.col("a")) == "Column<'a'>"
    assert str(F.coalesce("a", F.lit(1))) == "Column<'coalesce(a, 1)'>"
    assert looked_up == []


@pytest.mark.slow
def test_spark_accepts_options_of_spark_submit_and_logs_no_secret_of_a_login(
    bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _LOGGED, bootstrap, new_topic()]
    # Without these variables, the script starts its own JVM.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    event_log = {"enabled": "true", "dir": f"file://{tmp_path}", "compress": "false", "rolling.enabled": "false"}
    settings = (f"--conf spark.eventLog.{name}={value}" for name, value in event_log.items())
    environment["PYSPARK_SUBMIT_ARGS"] = f"{' '.join(settings)} --conf spark.sql.shuffle.partitions=2 pyspark-shell"
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (0, "1\n3 True\n"), process.stderr

    files = (file for file in tmp_path.rglob("*") if file.is_file() and file.suffix != ".crc")
    log = "".join(file.read_text("utf-8") for file in files)
    assert "SaveIntoDataSourceCommand" in log
    assert "ssl.keystore.key" in log
    assert "MIIEvQ" not in log
