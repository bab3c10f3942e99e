"""The only module that reaches into Spark's JVM, for tasks that PySpark has no public function for.

With Spark Connect, a driver has no JVM, so each user of this module would need another way:

- `kafka`: Kafka's AdminClient, which reads with Spark's own connection options which topics exist, and their offsets.
- `hadoop`: single files on any file system of Hadoop, and the footers of Parquet files.
- `catalyst`: expressions for a value that cannot be computed, and for methods of Java.
- `session`: the working directory of the JVM, its Kafka connector, and a second JVM in one process.

`progress` and `bulk.sending` use SparkContext, which Spark Connect does not have either.
"""

from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Classes that PySpark and these modules look up for each column, error or offset, by the names that they use.
_FREQUENT = (
    "functions",
    "PythonUtils",
    "py4j.reflection.TypeUtil",
    "java.util.ArrayList",
    "java.util.HashMap",
    "java.util.Properties",
    "org.apache.kafka.clients.admin.AdminClient",
    "org.apache.kafka.clients.admin.ListOffsetsOptions",
    "org.apache.kafka.clients.admin.OffsetSpec",
    "org.apache.kafka.common.IsolationLevel",
    "org.apache.kafka.common.TopicPartition",
    "org.apache.spark.sql.classic.ExpressionUtils",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.types.Metadata",
)


def keep_frequent_classes(spark: SparkSession) -> None:
    """Look up the classes that are used most, and keep them for as long as the session's JVM runs.

    PySpark looks a class up each time. For each part of a name that is no class, such as `org`, Java then searches all
    jars a dozen times. That took most of the CPU of `Kafka.ends`.
    """
    for name in _FREQUENT:
        place = spark._jvm
        for part in name.split("."):
            setattr(place, part, getattr(place, part))
            place = getattr(place, part)
        setattr(spark._jvm, name, place)  # PySpark also asks for some whole names at once


def packages(spark: SparkSession | None = None) -> Any:
    """Return the JVM's packages, whose members are its classes; without a session, those of the active one."""
    if spark is not None:
        return spark._jvm
    context = SparkContext._active_spark_context
    assert context is not None, "columns can only be made within a session"
    return context._jvm


def hadoop_configuration(spark: SparkSession) -> Any:
    """Return Hadoop's configuration, with which file systems are opened."""
    return spark._jsc.hadoopConfiguration()


def expression(column: "Column") -> Any:
    """Return the JVM's object for a column."""
    return column._jc


def forget_gateway() -> None:
    """Let the next session of this process start its own JVM, because PySpark keeps the connection to the first."""
    gateway = SparkContext._gateway
    SparkSession._instantiatedSession = None
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    if gateway is not None:
        gateway.shutdown()
