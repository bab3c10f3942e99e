"""Finds the four jars of Spark's Kafka connector, on Maven Central or in a directory."""

from pathlib import Path

import pyspark

from app.dev.broker.jars import one_at_a_time
from pipeline.errors import ConnectorMissing

#: The versions of Spark that work, each with its versions of kafka-clients and commons-pool2: mixed versions break at
#: run time (NoSuchMethodError). Maven Central lacks a jar of the connector of 4.0.1 to 4.0.3, 4.1.0, 4.1.2 and 4.3.0.
CONNECTORS = {"4.0.0": ("3.9.0", "2.12.0"), "4.1.1": ("3.9.1", "2.12.1"), "4.2.0": ("3.9.2", "2.13.1")}
#: Delta Lake for these versions: the ledger and the cold tier need it, `bulk` does not.
DELTA = {
    "4.0.0": ("io.delta:delta-spark_2.13:4.0.0", "io.delta:delta-storage:4.0.0"),
    "4.1.1": ("io.delta:delta-spark_4.1_2.13:4.1.0", "io.delta:delta-storage:4.1.0"),
}


def coordinates(version: str = pyspark.__version__) -> tuple[str, ...]:
    """Return the Maven coordinates of the connector for a Spark version.

    Raises ConnectorMissing for a version without a complete connector.
    """
    if version not in CONNECTORS:
        versions = ", ".join(CONNECTORS)
        raise ConnectorMissing(
            f"there is no tested Kafka connector for Spark {version}. Install pyspark {versions}, or give a "
            f"directory with the jars: --jars-dir."
        )
    clients, pool = CONNECTORS[version]
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{version}",
        f"org.apache.kafka:kafka-clients:{clients}",
        f"org.apache.commons:commons-pool2:{pool}",
        *DELTA.get(version, ()),
    )


def connector_jars(jars_dir: str | None = None) -> list[Path]:
    """Return the connector's jars: all in `jars_dir`, or Maven Central's, which are fetched once (10 MB).

    Raises ConnectorMissing if they are missing and cannot be fetched.
    """
    if jars_dir is not None:
        jars = sorted(Path(jars_dir).glob("*.jar"))
        if not jars:
            raise ConnectorMissing(f"there are no jars in {jars_dir}. Put these there: {', '.join(coordinates())}.")
        return jars
    dependencies = coordinates()
    names = {f"{artifact}-{version}.jar" for _, artifact, version in (each.split(":") for each in dependencies)}
    with one_at_a_time():
        jars_by_name = {jar.name: jar for jar in _resolve(dependencies) if jar.name in names}
    if len(jars_by_name) < len(names):
        raise ConnectorMissing(
            f"{min(names - jars_by_name.keys())} was not resolved. Give a directory with the jars: --jars-dir."
        )
    return [jars_by_name[name] for name in sorted(names)]


def _resolve(dependencies: tuple[str, ...]) -> list[Path]:
    import jgo  # noqa: PLC0415 - 0.2 s that only a run with its own jars should pay

    try:
        return [Path(jar) for one in dependencies for jar in jgo.build(one).all_jars]
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ConnectorMissing(
            f"Spark's Kafka connector could not be fetched from Maven Central: {reason}. Connect this machine to it "
            f"(once: the jars are cached), or put {', '.join(dependencies)} into a directory, and give --jars-dir."
        ) from error
