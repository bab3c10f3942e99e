"""Files below a directory of any file system that Hadoop supports: local, HDFS, S3A."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession


#: Hadoop accepts one slash after a scheme instead of two: `file:/data`, `hdfs:/data`, `dbfs:/data`.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LOCAL: Final = re.compile(r"file:(//)?(?=/)", re.IGNORECASE)


class Files:
    """Small files below `root`; a new file appears completely or not at all."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        """Use the file system of `root`, a directory, by the session's Hadoop configuration; create no file."""
        self._jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no public way
        self.root = root.rstrip("/")
        conf = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        self._fs = self._path("").getFileSystem(conf)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}" if name else self.root)

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none if the directory does not exist."""
        path = self._path(directory)
        if not self._fs.exists(path) or self._fs.getFileStatus(path).isFile():
            return []
        return sorted(status.getPath().getName() for status in self._fs.listStatus(path))

    def size(self, directory: str) -> int:
        """Return the size in bytes of all files below a directory."""
        return int(self._fs.getContentSummary(self._path(directory)).getLength())

    def read(self, name: str) -> str:
        """Return a file's text."""
        stream = self._fs.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_new(self, name: str, text: str) -> bool:
        """Create a file; return whether it did not exist before and now has this text."""
        final, begun = self._path(name), self._path(f"{name}.begun")
        if self._fs.exists(final):
            return False
        stream = self._fs.create(begun, True)  # noqa: FBT003 - Java's
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        return bool(self._fs.rename(begun, final)) and self.read(name) == text

    def delete(self, name: str) -> None:
        """Delete a file, or a directory with its content."""
        self._fs.delete(self._path(name), True)  # noqa: FBT003 - Java's


class LocalFiles:
    """Files below a local directory, which can be read before Spark has started."""

    def __init__(self, root: str) -> None:
        """Remove a `file:` scheme from `root`, a directory; create no file."""
        self.root = _LOCAL.sub("", root, count=1).rstrip("/")

    @classmethod
    def at(cls, root: str) -> "LocalFiles | None":
        """Return the files below `root`; None if it is in another file system."""
        files = cls(root)
        return None if _SCHEME.match(files.root) else files

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none if the directory does not exist."""
        path = Path(self.root, directory)
        return sorted(each.name for each in path.iterdir()) if path.is_dir() else []

    def read(self, name: str) -> str:
        """Return a file's text."""
        return Path(self.root, name).read_text("utf-8")

    def parquet(self, directories: "Iterable[str]") -> list[Path]:
        """Return the Parquet files below these directories."""
        return [file for name in directories for file in Path(self.root, name).rglob("*.parquet")]
