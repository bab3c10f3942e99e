"""Spark writes records to topics."""

import os

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from pipeline.context import JobContext
from tests.harness.waiting import LIMIT_S, eventually
from tests.pipeline.conftest import Consume

MIB = 1 << 20


def test_a_record_can_be_as_large_as_its_topic_allows(
    context: JobContext, consume: Consume, admin: AdminClient
) -> None:
    topic, value = context.topic("requests"), os.urandom(2 * MIB)
    size_limit = ConfigEntry("max.message.bytes", str(4 * MIB), incremental_operation=AlterConfigOpType.SET)
    for future in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[size_limit])]
    ).values():
        future.result(timeout=LIMIT_S)
    kafka, spark = context.kafka, context.spark
    eventually(lambda: kafka.largest_record(spark, topic) == 4 * MIB)  # Brokers apply the setting a moment later.
    columns = "key binary, value binary, headers array<struct<key:string,value:binary>>, partition int"

    kafka.write(spark.createDataFrame([(None, value, [], 0)], columns), topic)

    assert [message.value() for message in consume(topic)] == [value]
