"""SQL that users write: checked against the columns that there are, and null where it fails for one row."""

from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import AtomicType, BinaryType, DataType, NullType

from pipeline.catalyst import tried
from pipeline.errors import OptionInvalid, SchemaMismatch
from pipeline.spark_errors import sentence

#: Spark computes what two expressions have in common beforehand, outside of `attempt`, which then catches nothing. And
#: looking for repeated values in what is cached for a moment takes a fifth of the time that counting takes.
SETTINGS = {
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}


@dataclass(frozen=True)
class Expression:
    """An expression over the columns of certain rows; `option` is where it was given."""

    option: str
    column: Column
    kind: DataType

    @classmethod
    def of(cls, rows: DataFrame, option: str, text: str) -> "Expression":
        """Read one. Raises OptionInvalid if it is no SQL, SchemaMismatch if it does not fit the columns of `rows`."""
        try:
            column = F.expr(text)
            fields = rows.select(column).schema.fields
        except ParseException as error:
            raise OptionInvalid(f"{option} {text!r} is not an SQL expression: {_first_line(error)}") from error
        except AnalysisException as error:
            if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
                missing = (error.getMessageParameters() or {}).get("objectName", text)
                raise SchemaMismatch(
                    f"{option}: there is no column {missing}, there are {', '.join(rows.columns)}. (Put a text in "
                    f"single quotes inside the argument: \"'text'\".)"
                ) from error
            raise SchemaMismatch(f"{option} {text!r} does not fit the input: {_first_line(error)}") from error
        if len(fields) != 1:
            raise OptionInvalid(f"{option} {text!r} gives {len(fields)} columns. Give one.")
        return cls(option, column, fields[0].dataType)

    def text(self) -> Column:
        """Return its value as text, as Spark writes it. Raises SchemaMismatch if it has parts."""
        self._must_be_atomic()
        return F.base64(self.column) if isinstance(self.kind, BinaryType) else self.column.cast("string")

    def content(self) -> Column:
        """Return its value as bytes: binary as it is, all else as UTF-8 text. Raises SchemaMismatch if it has parts."""
        self._must_be_atomic()
        return self.column if isinstance(self.kind, BinaryType) else self.column.cast("string").cast("binary")

    def _must_be_atomic(self) -> None:
        if not isinstance(self.kind, AtomicType | NullType):
            raise SchemaMismatch(
                f"{self.option} is of the type {self.kind.simpleString()}, which is not a text. Use a part of it, "
                f"or to_json(…)."
            )


def attempt(value: Column) -> Column:
    """Return a struct whose field `value` is that value; null itself for a row for which it cannot be computed.

    So a row with a bad value is told from one with none, and from a failed job. Holds under `SETTINGS` alone.
    """
    return tried(F.struct(value.alias("value")))


def quoted(name: str) -> str:
    """Return a column's name as SQL."""
    return f"`{name.replace('`', '``')}`"


def _first_line(error: AnalysisException) -> str:
    return sentence(error) or str(error).strip().splitlines()[0]
