"""Files that PySpark has no functions for, on any file system of Hadoop: single outputs, and the footers of Parquet."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from pipeline.errors import OutputUnusable
from pipeline.jvm import hadoop_configuration, packages
from pipeline.spark_errors import sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Output:
    """A file, or a directory, that a command will write when its work is done."""

    def __init__(self, spark: "SparkSession", location: str) -> None:
        """Find the file system of `location`, and write and delete a file next to it or in it, before the work.

        Raises OutputUnusable if that fails.
        """
        self._location = location
        self._path: Any = packages(spark).org.apache.hadoop.fs.Path(location)
        self._files = self._path.getFileSystem(hadoop_configuration(spark))
        probe = self._path.suffix(".probe")
        try:
            self._files.create(probe, True).close()  # noqa: FBT003 - Java's
            self._files.delete(probe, False)  # noqa: FBT003
        except Py4JJavaError as error:
            raise self._unusable(error) from error

    def write(self, content: bytes) -> None:
        """Write the file, and replace one that is there. Raises OutputUnusable."""
        uri = self._files.makeQualified(self._path).toUri()
        if uri.getScheme() == "file":
            Path(uri.getPath()).write_bytes(content)  # without Hadoop's file with the checksum
            return
        try:
            stream = self._files.create(self._path, True)  # noqa: FBT003 - Java's
            stream.write(bytearray(content))
            stream.close()
        except Py4JJavaError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Py4JJavaError) -> OutputUnusable:
        why = sentence(error).rstrip(".")
        return OutputUnusable(f"{self._location} cannot be written: {why}. Check the path and its permissions.")


def nanosecond_columns(spark: "SparkSession", file: str) -> dict[str, bool]:
    """Return the columns of nanoseconds in a Parquet file, and whether their times are UTC.

    Columns within structs and lists are left out.
    """
    jvm = packages(spark)
    hadoop = jvm.org.apache.parquet.hadoop
    place = hadoop.util.HadoopInputFile.fromPath(
        jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file)), hadoop_configuration(spark)
    )
    footer = hadoop.ParquetFileReader.open(place)
    try:
        fields = footer.getFooter().getFileMetaData().getSchema().getFields()
    finally:
        footer.close()
    kinds = {each.getName(): str(each.getLogicalTypeAnnotation()) for each in fields}
    return {name: kind.endswith("true)") for name, kind in kinds.items() if kind.startswith("TIMESTAMP(NANOS")}
