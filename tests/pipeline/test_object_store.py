"""Ledger and cold tier on an object store: S3_ENDPOINT is the address of an S3 server, such as PyPI's `moto_server`."""

import json
import os
import subprocess
import sys
import uuid
from collections import Counter

import pytest
from deltalake import DeltaTable
from pyarrow.fs import FileSelector, S3FileSystem

from pipeline.context import JobContext
from tests.harness.waiting import PROGRAM_S
from tests.pipeline.conftest import Consume, Produce
from tests.pipeline.test_park_promote import FakeWorker
from tests.pipeline.topic_writer import NOW_MS, TopicWriter

ENDPOINT = os.environ.get("S3_ENDPOINT", "")
_KEY = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
_OPTIONS = ("--packages", "org.apache.hadoop:hadoop-aws:3.4.1", "--conf", "spark.hadoop.fs.s3a.path.style.access=true")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ENDPOINT, reason="no S3_ENDPOINT: tables on an object store were not tested"),
]


class Bucket:
    """A new bucket, with methods that run commands of the pipeline on it."""

    def __init__(self, context: JobContext, env: dict[str, str]) -> None:
        """Create the bucket; `env` has the environment variables of the commands."""
        self.name = f"b{uuid.uuid4().hex[:8]}"
        self._context, self._env = context, env | _KEY
        scheme, _, host = ENDPOINT.partition("://")
        self.files = S3FileSystem(
            access_key="key",
            secret_key=_KEY["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=host,
            scheme=scheme,
            allow_bucket_creation=True,
        )
        self.files.create_dir(self.name)

    def start(self, job: str, path: str, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command for a path of the bucket."""
        command = [sys.executable, "-m", "pipeline", job, f"s3a://{self.name}/{path}", *arguments, "--json", *_OPTIONS]
        command += ["--conf", f"spark.hadoop.fs.s3a.endpoint={ENDPOINT}"]
        command += ["--app-id", self._context.app_id, "--bootstrap", self._context.kafka.bootstrap]
        return subprocess.Popen(
            command, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def run(self, job: str, path: str, *arguments: str) -> dict[str, int]:
        """Run a command to its end; return its counts."""
        process = self.start(job, path, *arguments)
        out, err = process.communicate(timeout=PROGRAM_S)
        assert process.returncode == 0, err
        counts: dict[str, int] = json.loads(out.splitlines()[-1])["counts"]
        return counts

    def rows(self, path: str) -> list[dict[str, object]]:
        """Read the rows of a table without Spark."""
        options = {
            "AWS_ENDPOINT_URL": ENDPOINT, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true", **_KEY
        }  # fmt: skip
        rows: list[dict[str, object]] = (
            DeltaTable(f"s3://{self.name}/{path}", storage_options=options).to_pyarrow_table().to_pylist()
        )
        return rows

    def content(self) -> bytes:
        """Return the bytes of all objects."""
        objects = self.files.get_file_info(FileSelector(self.name, recursive=True))
        return b"".join(self.files.open_input_file(object_.path).read() for object_ in objects if object_.is_file)


@pytest.fixture
def bucket(context: JobContext, own_spark: dict[str, str]) -> Bucket:
    return Bucket(context, own_spark)


def test_the_commands_of_the_ledger_run_on_s3(bucket: Bucket, context: JobContext, produce: Produce) -> None:
    topics = TopicWriter(context, produce)
    for number in range(20):
        topics.life(topics.request(f"m{number}", key=b"secret-key"), f"m{number}")
    topics.progress()

    bucket.run("ledger", "ledger")
    counts = bucket.run("reconcile", "ledger")
    assert (counts["accepted"], counts["delivered"], counts["missing"]) == (20, 20, 0)
    bucket.run("report", "ledger", "--out", f"s3a://{bucket.name}/report")
    assert b"secret-key" in bucket.content()
    bucket.run("erase", "ledger", "--key", "secret-key")
    bucket.run("vacuum", "ledger", "--older-than", "PT0S")
    assert b"secret-key" not in bucket.content()


def test_two_concurrent_writers_on_s3_neither_lose_nor_repeat_an_event(
    bucket: Bucket, context: JobContext, produce: Produce
) -> None:
    topics = TopicWriter(context, produce)
    for number in range(20):
        topics.life(topics.request(f"m{number}"), f"m{number}")
    writers = [bucket.start("ledger", "ledger") for _ in range(2)]
    for writer in writers:
        writer.communicate(timeout=PROGRAM_S)
    bucket.run("ledger", "ledger")
    assert Counter(row["id"] for row in bucket.rows("ledger") if row["kind"] == "accepted") == {
        f"m{number}": 1 for number in range(20)
    }


def test_messages_parked_on_s3_are_promoted_once(
    bucket: Bucket, context: JobContext, produce: Produce, consume: Consume
) -> None:
    worker = FakeWorker(context, produce)
    for number in range(20):
        worker.park(f"m{number}", NOW_MS + number)
    bucket.run("park", "cold")
    bucket.run("promote", "cold", "--lead", "PT1H")
    bucket.run("promote", "cold", "--lead", "PT1H")
    ids = Counter(dict(message.headers() or [])["delay-id"].decode() for message in consume(context.topic("requests")))
    assert ids == {f"m{number}": 1 for number in range(20)}
