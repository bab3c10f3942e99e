"""Spark's own expressions that have no function in PySpark, as columns."""

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column


def tried(value: Column) -> Column:
    """Return a value, null where it cannot be computed.

    Holds with `spark.sql.subexpressionElimination.enabled` off alone: what two expressions have in common is computed
    outside of both.
    """
    return _column(_sql().catalyst.expressions.TryEval(_expression(value)))


def called(class_name: str, method: str, argument: Column) -> Column:
    """Return what a static method of a Java class returns for a value: a method of one argument that returns an int.

    Null for null.
    """
    jvm = _jvm()
    class_ = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(class_name)
    sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    argument_, nothing = sequence([_expression(argument)]), sequence([])
    kind, absent = _sql().types.DataTypes.IntegerType, jvm.scala.Option.apply(None)
    nulls, deterministic = (True, True), True
    invoke = _sql().catalyst.expressions.objects.StaticInvoke
    return _column(invoke(class_, kind, method, argument_, nothing, *nulls, deterministic, absent))


def _jvm() -> Any:
    context = SparkContext._active_spark_context  # noqa: SLF001 - PySpark has no public way
    assert context is not None, "columns can only be made within a session"
    return context._jvm  # noqa: SLF001


def _sql() -> Any:
    return _jvm().org.apache.spark.sql


def _expression(value: Any) -> Any:
    return _sql().classic.ExpressionUtils.expression(value._jc)  # noqa: SLF001


def _column(expression: Any) -> Column:
    return Column(_sql().classic.ExpressionUtils.column(expression))
