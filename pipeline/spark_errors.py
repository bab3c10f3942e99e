"""Turns errors of Spark and its JVM into sentences for the user."""

import re
import signal
from collections.abc import Iterator
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException

from pipeline.errors import InputUnreadable, OptionInvalid, PipelineError, SparkStopped

#: Exit code of a JVM that ran out of memory (`py4j_gateway`).
_OUT_OF_MEMORY = 3
_FILE = re.compile(r"reading file (\S+)\.\s")
_SCHEME = re.compile(r"FileSystem for scheme \"([\w.+-]+)\"|Class org\.apache\.hadoop\.fs\.(s3a|azure)\w*\.")
#: The packages of Hadoop's file systems, by scheme; `azure` stands for all of Azure's.
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
    "azure": "org.apache.hadoop:hadoop-azure",
}
_TYPES = re.compile(r'incompatible data types ("[^"]+" and "[^"]+")')


class _Cause(NamedTuple):
    """One cause of an error: the name of its Java class, and its message."""

    kind: str
    message: str


def sentence(error: Exception) -> str:
    """Return the first line of Spark's message, or Java's cause if the message has one."""
    first, *others = str(error).splitlines() or [type(error).__name__]
    return others[0].removeprefix(": ") if others and others[0].startswith(": ") else first


def explained(error: Exception) -> PipelineError:
    """Return the pipeline's error for an error of Spark, whose JVM must still run."""
    causes = list(_causes(error))
    text = "\n".join(cause.message for cause in causes) or str(error)
    about_input = _about_input(error) if isinstance(error, PySparkException) else None
    return about_input or _about_files(text, causes) or _about_place(text) or _otherwise(error, causes)


def _about_input(error: PySparkException) -> PipelineError | None:
    """Return the error for an input that Spark rejected before it read any row, or None."""
    condition, named = error.getCondition(), error.getMessageParameters() or {}
    if condition == "PATH_NOT_FOUND":
        return InputUnreadable(f"there is nothing at {_path(named.get('path', ''))}. Check that it has been written.")
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return InputUnreadable(
            f"Spark knows no table {named.get('relationName', '')}. Check that its catalog is configured."
        )
    if condition == "UNABLE_TO_INFER_SCHEMA":
        return InputUnreadable(f"there are no files of {named.get('format')} in INPUT. Check that it has been written.")
    if isinstance(error, AnalysisException | IllegalArgumentException | ParseException):
        return InputUnreadable(f"Spark rejects the input or an option: {sentence(error).rstrip('.')}.")
    return None


def _about_files(text: str, causes: "list[_Cause]") -> PipelineError | None:
    """Return the error for a file that Spark could not read, or None."""
    if "is not a Parquet file" in text:
        return InputUnreadable(f"{_read(text)} is not Parquet. For another format, give --format.")
    if "PARQUET_COLUMN_DATA_TYPE_MISMATCH" in text:
        return InputUnreadable(
            f"{_read(text)} has another type of a column than other files of INPUT ({_root(causes)})."
        )
    if "CANNOT_MERGE_SCHEMAS" in text:
        types = _TYPES.search(text)
        return InputUnreadable(
            f"the files of INPUT have different types of one column{f', {types[1]}' if types else ''}. Write one type, "
            f"or read the files of each type separately."
        )
    if "FAILED_READ_FILE" in text:
        return InputUnreadable(
            f"{_read(text)} cannot be read to its end ({_root(causes)}). Check that it was written completely."
        )
    return None


def _about_place(text: str) -> PipelineError | None:
    """Return the error for a disk, a memory or a file system that Spark cannot use, or None."""
    if "No space left on device" in text:
        return SparkStopped("the disk is full: no space is left for the output, or for Spark's temporary files.")
    if "INVALID_DRIVER_MEMORY" in text:
        return OptionInvalid("--memory is less than Spark needs. Give 600m or more.")
    scheme = _SCHEME.search(text)
    if scheme is not None:
        name = scheme[1] or scheme[2]
        if name in ("s3", "s3n"):
            return OptionInvalid(f"Spark does not support {name}://. Write s3a:// instead.")
        package = _PACKAGES.get(name, "the package of its file system")
        return OptionInvalid(
            f"Spark does not support the file system {name}:// without {package}. Add it with --packages, in the "
            f"version of Spark's Hadoop."
        )
    return None


def _otherwise(error: Exception, causes: "list[_Cause]") -> PipelineError:
    return SparkStopped(f"Spark stopped: {(_root(causes) or sentence(error)).rstrip('.')}.")


def java_ended(code: int) -> PipelineError:
    """Return the error for a JVM that ended during a command, by its exit `code` (as in `Popen.returncode`)."""
    if code == _OUT_OF_MEMORY:
        return SparkStopped("Spark's Java ran out of memory. Give it more with --memory.")
    if code < 0:
        name = signal.Signals(-code).name
        about = " (the system does that when memory runs out)" if -code == signal.SIGKILL else ""
        return SparkStopped(f"Spark's Java was killed with {name}{about}.")
    return SparkStopped(f"Spark's Java ended with code {code}; see its output above.")


def _causes(error: Exception) -> Iterator[_Cause]:
    """Yield Java's causes of an error, from the outermost inwards."""
    thrown: Any = getattr(error, "_origin", None)
    if isinstance(error, Py4JJavaError):
        thrown = error.java_exception
    try:
        while thrown is not None:
            yield _Cause(thrown.getClass().getSimpleName(), thrown.getMessage() or "")
            thrown = thrown.getCause()
    except (Py4JError, OSError):  # the JVM has ended
        return


def _root(causes: list[_Cause]) -> str:
    """Return the innermost cause that has a message, in one line."""
    innermost = next((cause for cause in reversed(causes) if cause.message.strip()), None)
    return f"{innermost.kind}: {innermost.message.strip().splitlines()[0]}" if innermost else ""


def _read(text: str) -> str:
    match = _FILE.search(text)
    return _path(match[1]) if match else "INPUT"


def _path(text: str) -> str:
    """Return a path without the scheme `file:`."""
    return re.sub(r"^file:/+", "/", text)
