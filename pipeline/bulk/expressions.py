"""SQL expressions that users write: checked against the columns of the input, and null where one fails for a row."""

import re
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import AtomicType, BinaryType, DataType, NullType

from pipeline.catalyst import tried
from pipeline.errors import OptionInvalid, SchemaMismatch
from pipeline.spark_errors import sentence

#: Spark would compute the common part of two expressions beforehand, outside `attempt`, which then catches no error.
#: And compressing a table that is cached for a moment would take a fifth of the time of counting.
SETTINGS = {
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}


@dataclass(frozen=True)
class Expression:
    """An expression over the columns of an input.

    Attributes:
        option: the option of the command line that has it.
        column: its value.
        kind: the type of its value.
        safe: whether it is the name of a column or a text, which can be computed for each row.
    """

    option: str
    column: Column
    kind: DataType
    safe: bool = False

    @classmethod
    def of(cls, rows: DataFrame, option: str, text: str) -> "Expression":
        """Parse the text of an option as an expression over the columns of `rows`.

        Raises OptionInvalid if the text is not SQL, SchemaMismatch if it does not fit the columns.
        """
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
        return cls(
            option, column, fields[0].dataType, text in {*rows.columns, *map(quoted, rows.columns)} or _is_text(text)
        )

    def text(self) -> Column:
        """Return the value as text, as Spark prints it. Raises SchemaMismatch for a struct, an array or a map."""
        self._must_be_atomic()
        return F.base64(self.column) if isinstance(self.kind, BinaryType) else self.column.cast("string")

    def content(self) -> Column:
        """Return the value as bytes: binary unchanged, other types as UTF-8 text.

        Raises SchemaMismatch for a struct, an array or a map.
        """
        self._must_be_atomic()
        return self.column if isinstance(self.kind, BinaryType) else self.column.cast("string").cast("binary")

    def _must_be_atomic(self) -> None:
        if not isinstance(self.kind, AtomicType | NullType):
            raise SchemaMismatch(
                f"{self.option} is of the type {self.kind.simpleString()}, which is not a text. Use a part of it, "
                f"or to_json(…)."
            )


@dataclass(frozen=True)
class Attempt:
    """A value that may not be computable, as a column `name` of a table.

    Attributes:
        name: the name of the column.
        column: the column to select. Unless `safe`, it is a struct with the field `value`, and the struct is null for
            a row where the value cannot be computed, so that such a row differs from a row whose value is null.
        safe: whether the value can be computed for each row, so that the column is the value itself.
    """

    name: str
    column: Column
    safe: bool

    @classmethod
    def of(cls, name: str, value: Column, *, safe: bool = False) -> "Attempt":
        """Make the attempt to compute a value. Unless `safe`, it needs `SETTINGS`."""
        whole = value if safe else tried(F.struct(value.alias("value")))
        return cls(name, whole.alias(name), safe)

    @property
    def value(self) -> Column:
        """The value in a table that has the column; null where it could not be computed."""
        return F.col(self.name if self.safe else f"{self.name}.value")

    @property
    def failed(self) -> Column:
        """Whether the value could not be computed, in a table that has the column."""
        return F.lit(False) if self.safe else F.col(self.name).isNull()  # noqa: FBT003 - a column


def _is_text(sql: str) -> bool:
    """Return whether SQL is null, or a text in single quotes."""
    return sql == "null" or re.fullmatch(r"'[^'\\]*'", sql) is not None


def quoted(name: str) -> str:
    """Return a column's name as SQL."""
    return f"`{name.replace('`', '``')}`"


def _first_line(error: AnalysisException) -> str:
    return sentence(error) or str(error).strip().splitlines()[0]
