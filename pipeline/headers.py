"""Headers as columns: looked up by name, split into the user's and the contract's, and joined for requests."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from punctual.contract.headers import PREFIX
from punctual.contract.times import DIGITS_OF_SECONDS

TYPE = "array<struct<key:string,value:binary>>"


def named(records: DataFrame) -> DataFrame:
    """Add the column `named`, a map of each record's headers; for a name that repeats, the first header counts.

    The map has its own projection, because within functions that Spark does not compile it would be built for each
    name. The headers are reversed because the session lets the last duplicate key win.
    """
    return records.withColumn("named", F.map_from_entries(F.reverse("headers")))


def header(name: str) -> Column:
    """Return the bytes of the first header `name` of `named` records; null if there is none."""
    return F.try_element_at("named", F.lit(name))


def text(name: str) -> Column:
    """Return the first header `name` as text; null if there is none or it is not UTF-8."""
    return F.try_validate_utf8(header(name).cast("string"))


def number(name: str) -> Column:
    """Return the first header `name` as a long; null if there is none or it is not 1 to 18 digits."""
    digits = text(name)
    return F.when(digits.rlike("^[0-9]{1,18}$"), digits.try_cast("long"))


def users() -> Column:
    """Return the user's headers in their order; an empty array if there are none."""
    headers = F.coalesce("headers", F.array().cast(TYPE))
    return F.filter(headers, lambda each: ~each["key"].startswith(PREFIX))


def moment(due_ms: Column) -> Column:
    """Return a time (epoch ms) as the digits of a header, with leading zeros if it could be taken for seconds."""
    text = due_ms.cast("string")
    short = due_ms.between(10 ** (DIGITS_OF_SECONDS.start - 1), 10 ** (DIGITS_OF_SECONDS.stop - 1) - 1)
    return F.when(short, F.lpad(text, DIGITS_OF_SECONDS.stop, "0")).otherwise(text)


def joined(own: dict[str, Column], users_: Column | None = None) -> Column:
    """Return the user's headers, then the headers in `own` whose value (text, or its bytes) is not null."""
    each = [
        F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in own.items()
    ]
    headers = F.filter(F.array(*each), lambda pair: pair["value"].isNotNull()).cast(TYPE)
    return headers if users_ is None else F.concat(users_, headers)
