"""Spark logs in to Kafka by each mechanism that the worker supports, with the worker's settings."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from app.ops.doctor.acl import Acl
from pipeline.errors import LoginUnusable
from pipeline.kafka import Kafka
from pipeline.login import java_options, python_options
from tests.harness.guarded import Guarded
from tests.harness.kafka import create_topic
from tests.integration.installation import new_app_id


def test_the_python_client_gets_the_security_settings_of_the_worker() -> None:
    assert python_options({}) == {"security_protocol": "PLAINTEXT"}
    settings = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "p"}
    options = python_options(settings)
    assert options.pop("ssl_context").check_hostname
    assert options == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }


def test_the_java_client_gets_them_too_with_quoted_secrets(tmp_path: Path) -> None:
    assert java_options({}) == {}
    (tmp_path / "password").write_text('se"c\\ret\n', "utf-8")
    settings = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_USERNAME": "u"}
    options = java_options(settings | {"KAFKA_SASL_PASSWORD_FILE": str(tmp_path / "password")})
    assert options["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        r'username="u" password="se\"c\\ret";'
    )
    with pytest.raises(LoginUnusable, match=r"^KAFKA_SASL_USERNAME='': SASL_SSL needs a user"):
        java_options({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL"})


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [("SASL_SSL", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_SSL", "OAUTHBEARER"), ("MUTUAL", "")],
)
def test_spark_writes_and_reads_with_each_mechanism(
    guarded: Guarded, spark: SparkSession, listener: str, mechanism: str
) -> None:
    topic = create_topic(guarded.broker.bootstrap, new_app_id("spark"))
    operations = ("Read", "Write", "DescribeConfigs")
    guarded.grant(
        "worker", [Acl("topic", topic, "literal", operations), Acl("group", "spark-kafka", "prefixed", ("Read",))]
    )
    kafka = Kafka(guarded.outside(listener), java_options(guarded.env(listener, mechanism)))
    record = spark.range(1).select(
        F.lit(b"k").alias("key"),
        F.lit(b"v").alias("value"),
        F.array(F.struct(F.lit("h").alias("key"), F.lit(b"x").alias("value"))).alias("headers"),
    )
    kafka.write(record, topic)
    ends = kafka.ends(spark, topic)[topic]
    assert ends == {0: 1}
    assert [bytes(row.value) for row in kafka.read(spark, topic, {}, ends).collect()] == [b"v"]
