"""Headers as columns: looked up by name, the user's apart from ours, and put together for what is sent."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from punctual.contract.headers import PREFIX
from punctual.contract.times import DIGITS_OF_SECONDS

TYPE = "array<struct<key:string,value:binary>>"


def named(records: DataFrame) -> DataFrame:
    """Return records with a map of their headers in the column `named`: of those of one name the first.

    In a projection of its own: within functions that Spark doesn't compile it would be made for each name. Of keys that
    occur again the session lets the last one win, so the headers are reversed.
    """
    return records.withColumn("named", F.map_from_entries(F.reverse("headers")))


def header(name: str) -> Column:
    """Return the value of the first header called `name` of `named` records, as bytes; null if there is none."""
    return F.try_element_at("named", F.lit(name))


def text(name: str) -> Column:
    """Return it as text; null if there is none or it is no UTF-8."""
    return F.try_validate_utf8(header(name).cast("string"))


def number(name: str) -> Column:
    """Return it as a long; null if there is none or it is not just digits."""
    said = text(name)
    return F.when(said.rlike("^[0-9]{1,18}$"), said.try_cast("long"))


def users() -> Column:
    """Return the headers that are the user's, in their order; an empty array if there are none."""
    given = F.coalesce("headers", F.array().cast(TYPE))
    return F.filter(given, lambda each: ~each["key"].startswith(PREFIX))


def moment(due_ms: Column) -> Column:
    """Return a time (epoch ms) as a request says it: with zeros before digits that would look like seconds."""
    text = due_ms.cast("string")
    short = F.length(text).between(DIGITS_OF_SECONDS.start, DIGITS_OF_SECONDS.stop - 1)
    return F.when(short, F.lpad(text, DIGITS_OF_SECONDS.stop, "0")).otherwise(text)


def joined(own: dict[str, Column], users_: Column | None = None) -> Column:
    """Return the user's headers, then those of `own` whose value (text, or bytes of it) is not null."""
    each = [
        F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in own.items()
    ]
    told = F.filter(F.array(*each), lambda pair: pair["value"].isNotNull()).cast(TYPE)
    return told if users_ is None else F.concat(users_, told)
