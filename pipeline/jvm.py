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
