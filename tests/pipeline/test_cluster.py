"""The wheels on a cluster of processes that spark-submit starts: a driver, a master and two executors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pipeline.context import JobContext
from pipeline.jars import connector_jars
from pipeline.py4j_gateway import find_java
from punctual.contract.native import decode
from tests.harness.waiting import PROGRAM_S
from tests.pipeline.conftest import Consume
from tests.pipeline.records import ConsumedRecord

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent


@pytest.mark.slow
def test_spark_submit_runs_the_wheels_on_a_cluster(context: JobContext, consume: Consume, tmp_path: Path) -> None:
    rows, count = tmp_path / "rows.parquet", 40
    context.spark.range(count).selectExpr("id", "4000000000000 + id as at").write.parquet(str(rows))
    packages = [_wheel_as_zip(project, tmp_path) for project in (ROOT, ROOT / "punctual")]
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]"]
    submit += ["--driver-memory", "700m", "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"]
    submit += ["--jars", ",".join(map(str, connector_jars())), "--py-files", ",".join(map(str, packages))]
    arguments = ["bulk", str(rows), "--job", "job", "--at", "at", "--to", "out", "--value", "id", "--natural-key", "id"]
    # Python in the executors keeps the rate.
    arguments += ["--max-delay", "P36500D", "--max-per-second", "1000", "--json"]
    arguments += ["--bootstrap", context.kafka.bootstrap, "--app-id", context.app_id]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment |= {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"JAVA_HOME": str(find_java().resolve().parents[1]), "SPARK_WORKER_DIR": str(tmp_path / "work")}

    command = [*submit, str(ROOT / "pipeline" / "__main__.py"), *arguments]
    process = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )

    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout.splitlines()[-1])["counts"]["sent"] == count
    requests = {decode(ConsumedRecord(message)).id for message in consume(context.topic("requests"))}
    assert len(requests) == count


def _wheel_as_zip(project: Path, directory: Path) -> Path:
    """Build the wheel of a project; return its path, with a suffix that Spark accepts for a Python package."""
    target = directory / f"wheel-{project.name}"
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", str(target)]
    subprocess.run([*command, str(project)], check=True, timeout=PROGRAM_S)
    [wheel] = target.glob("*.whl")
    return wheel.rename(wheel.with_suffix(".zip"))
