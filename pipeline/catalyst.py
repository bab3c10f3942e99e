"""Expressions of Spark that PySpark has no function for, as columns."""

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column


def tried(value: Column) -> Column:
    """Return a column with null where the value cannot be computed.

    It needs `spark.sql.subexpressionElimination.enabled` to be off: otherwise Spark computes the common part of two
    expressions outside both, where no error is caught.
    """
    return _column(_sql().catalyst.expressions.TryEval(_expression(value)))


def called(class_name: str, method: str, argument: Column) -> Column:
    """Return the int that a static method of a Java class, with one argument, returns for a value; null for null."""
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
