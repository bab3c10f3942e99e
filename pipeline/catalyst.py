"""Expressions of Spark that PySpark has no function for, as columns."""

from typing import Any

from pyspark.sql import Column

from pipeline import jvm


def tried(value: Column) -> Column:
    """Return a column with null where the value cannot be computed.

    It needs `spark.sql.subexpressionElimination.enabled` to be off: otherwise Spark computes the common part of two
    expressions outside both, where no error is caught.
    """
    return _column(_sql().catalyst.expressions.TryEval(_expression(value)))


def called(class_name: str, method: str, argument: Column) -> Column:
    """Return the int that a static method of a Java class, with one argument, returns for a value; null for null."""
    packages = jvm.packages()
    class_ = packages.java.lang.Thread.currentThread().getContextClassLoader().loadClass(class_name)
    sequence = packages.org.apache.spark.api.python.PythonUtils.toSeq
    argument_, nothing = sequence([_expression(argument)]), sequence([])
    kind, absent = _sql().types.DataTypes.IntegerType, packages.scala.Option.apply(None)
    nulls, deterministic = (True, True), True
    invoke = _sql().catalyst.expressions.objects.StaticInvoke
    return _column(invoke(class_, kind, method, argument_, nothing, *nulls, deterministic, absent))


def _sql() -> Any:
    return jvm.packages().org.apache.spark.sql


def _expression(value: Column) -> Any:
    return _sql().classic.ExpressionUtils.expression(jvm.expression(value))


def _column(expression: Any) -> Column:
    return Column(_sql().classic.ExpressionUtils.column(expression))
