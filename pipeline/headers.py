"""Headers as columns: looked up by name, the user's apart from ours, and put together for what is sent."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from app.contract.headers import PREFIX

TYPE = "array<struct<key:string,value:binary>>"


def header(name: str, headers: str | Column = "headers") -> Column:
    """Give the value of the first header called `name`, as bytes; null if there is none.

    By a map, which Spark makes once for all names: of names that occur again the session lets the last entry win, so
    the headers are reversed.
    """
    given = F.col(headers) if isinstance(headers, str) else headers
    return F.try_element_at(F.map_from_entries(F.reverse(given)), F.lit(name))


def text(name: str, headers: str | Column = "headers") -> Column:
    """Give it as text; null if there is none or it is no UTF-8."""
    return F.try_validate_utf8(F.decode(header(name, headers), "UTF-8"))


def number(name: str, headers: str | Column = "headers") -> Column:
    """Give it as a long; null if there is none or it is not just digits."""
    said = text(name, headers)
    return F.when(said.rlike("^[0-9]{1,18}$"), said.try_cast("long"))


def users(headers: str | Column = "headers") -> Column:
    """Give the headers that are the user's, in their order; an empty array if there are none."""
    given = F.coalesce(F.col(headers) if isinstance(headers, str) else headers, F.array().cast(TYPE))
    return F.filter(given, lambda each: ~each["key"].startswith(PREFIX))


def joined(own: dict[str, Column], users_: Column | None = None) -> Column:
    """Give the user's headers, then those of `own` whose value (text) is not null."""
    each = [
        F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in own.items()
    ]
    told = F.filter(F.array(*each), lambda pair: pair["value"].isNotNull()).cast(TYPE)
    return told if users_ is None else F.concat(users_, told)
