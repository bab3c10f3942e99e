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


def called(class_name: str, method: str, argument: Column, kind: str = "Integer") -> Column:
    """Return the result of a static method of a Java class, with the value as its argument; null for null.

    `kind` is the name of the result's type in Spark's `DataTypes`, without "Type".
    """
    packages = jvm.packages()
    argument_, nothing = _sequence(_expression(argument)), _sequence()
    type_, absent = getattr(_sql().types.DataTypes, f"{kind}Type"), packages.scala.Option.apply(None)
    nulls, deterministic = (True, True), True
    invoke = _sql().catalyst.expressions.objects.StaticInvoke
    return _column(invoke(_class(class_name), type_, method, argument_, nothing, *nulls, deterministic, absent))


def java_text(text: Column) -> Column:
    """Return a text as an argument for `called` whose type is Java's String."""
    kind = _sql().types.ObjectType(_class("java.lang.String"))
    nulls, deterministic = (True, True), True
    invoke = _sql().catalyst.expressions.objects.Invoke
    return _column(invoke(_expression(text), "toString", kind, _sequence(), _sequence(), *nulls, deterministic))


def _class(name: str) -> Any:
    return jvm.packages().java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)


def _sequence(*parts: Any) -> Any:
    return jvm.packages().org.apache.spark.api.python.PythonUtils.toSeq(list(parts))


def _sql() -> Any:
    return jvm.packages().org.apache.spark.sql


def _expression(value: Column) -> Any:
    return _sql().classic.ExpressionUtils.expression(jvm.expression(value))


def _column(expression: Any) -> Column:
    return Column(_sql().classic.ExpressionUtils.column(expression))
