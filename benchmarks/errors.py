"""Errors that make a run fail. Each message has the cause and what to do.

BenchmarkError
├── PromiseBroken      something was lost, early, changed or delivered twice
├── TooSlow            the machine, or the load, did not keep up: there are no figures
├── ProcessFailed      the worker or the load generator ended by itself
├── BaselineMissing    a program that a baseline needs is not on this machine
├── BaselineFailed     a baseline lost messages, or was too slow
├── KernelMissing      workers used the native extension although they must not, or the reverse
├── ResultUnusable     a file that is no saved result
└── CommitUnusable     a commit that cannot be compared with
"""

from collections.abc import Iterable


class BenchmarkError(Exception):
    """A run that gives no result."""


class PromiseBroken(BenchmarkError):
    """The deliveries are not as requested."""

    def __init__(self, experiment: str, faults: list[str]) -> None:
        super().__init__(f"{experiment}: the deliveries are not as requested: {'; '.join(faults)}.")


class TooSlow(BenchmarkError):
    """Something did not happen in time."""


class ProcessFailed(BenchmarkError):
    """A process that is needed has ended."""

    def __init__(self, process: str, code: int, log_end: str) -> None:
        super().__init__(f"The {process} ended by itself with exit code {code}. The end of its log:\n{log_end}")


class BaselineMissing(BenchmarkError):
    """A baseline that cannot be run here."""

    def __init__(self, name: str, needs: str) -> None:
        super().__init__(f"The baseline {name} needs {needs}.")


class BaselineFailed(BenchmarkError):
    """Another system lost messages, or was too slow: the figures of ours count all the same."""

    def __init__(self, name: str, cause: BenchmarkError) -> None:
        super().__init__(f"The baseline {name} gives no figures: {cause}")


class KernelMissing(BenchmarkError):
    """Figures would be of another path than they say."""

    def __init__(self, expected: str, reported: Iterable[str]) -> None:
        super().__init__(
            f"The native extension must be {expected} in all workers, and they report: {', '.join(reported)}. "
            "Build it (`make build NAME=kernel`), or leave --kernel out."
        )


class ResultUnusable(BenchmarkError):
    """A file that cannot be compared with."""

    def __init__(self, path: object, cause: object) -> None:
        super().__init__(
            f"{path} is not a result that `--save` has written ({cause}). Give one from benchmarks/results."
        )


class CommitUnusable(BenchmarkError):
    """A commit whose code is not available."""

    def __init__(self, commit: str, cause: object) -> None:
        super().__init__(f"The code of {commit!r} is not available ({cause}). Give a commit of this repository.")
