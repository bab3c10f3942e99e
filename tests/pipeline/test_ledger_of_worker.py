"""The ledger beside a real worker: the account balances, and what is lost comes back once."""

import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.context import Context
from pipeline.jobs import reconcile, rescue
from pipeline.kafka import Kafka
from pipeline.ledger import KIND
from pipeline.ledger.tables import OUTCOMES
from tests.harness.worker import eventually
from tests.integration.installation import running
from tests.pipeline.test_rescue import options


def test_what_a_worker_has_lost_is_delivered_once(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    with running(bootstrap, tmp_path, "ledger") as here:
        context = Context(spark, Kafka(bootstrap), here.app_id)
        lake = str(tmp_path / "ledger")
        to, due = here.topic(), int(time.time() * 1000) + 1_000
        here.requests.schedule("on-time", due, to, b"on time")
        here.requests.schedule("lost", due, to, b"lost")
        here.requests.schedule("later", due + 3_600_000, to)
        here.requests.cancel("lost")
        here.requests.flush()
        here.await_event("delivered", "on-time")
        here.await_event("accepted", "later")
        assert reconcile.run(context, options(lake)) == 0

        # As if the worker had lost it: it no longer holds the message, and the ledger knows of no ending.
        ledger = context.lake(lake, KIND)
        kept = ledger.read("outcomes", OUTCOMES).where(F.col("id") != "lost")
        ledger.commit({"outcomes": kept}, replaced={"outcomes"})
        eventually(lambda: min(said["fired_to"] for said in here.progress().values()) > due + 1_000, what="progress")
        arguments = (lake, "--grace", "PT1S", "--apply")
        assert rescue.run(context, options(*arguments)) == 0
        here.await_event("delivered", "lost")
        assert rescue.run(context, options(*arguments)) == 0
        assert reconcile.run(context, options(lake, "--as-is")) == 0
        assert [record.value for record in here.wait_for(to, 2)] == [b"on time", b"lost"]
