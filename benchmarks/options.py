"""The options of the command line."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.experiments import GROUPS, NAMES, USUAL
from benchmarks.kernel import Kernel
from benchmarks.result import DIRECTORY
from benchmarks.sizes import FULL, GUARD, SHORT, SMOKE, Sizes

_KERNELS: dict[str, tuple[Kernel, ...]] = {"on": ("on",), "off": ("off",), "both": ("off", "on")}


@dataclass(frozen=True, slots=True)
class Options:
    """A run."""

    only: tuple[str, ...]
    sizes: Sizes
    runs: int
    save: Path | None
    against: Path | None
    kernels: tuple[Kernel | None, ...] = (None,)
    """Which paths the workers take, one after the other in each run; None leaves it to the environment."""


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; ends the process with code 2 if it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Punctual on a real Kafka: KAFKA_BOOTSTRAP_SERVERS, else one that is started for it.",
        epilog="DELAY_* variables reach the worker that is measured. Exit codes: 0 fine; 1 something was lost, early, "
        "or failed, or the hot path has become slower; 2 the command line makes no sense.",
    )
    parser.add_argument(
        "--only",
        action="extend",
        type=_names,
        metavar="NAME",
        help=f"one or several, with commas or again for more, of {', '.join((*NAMES, *GROUPS))}. "
        f"Without: {', '.join(USUAL)}",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--full", action="store_const", dest="sizes", const=FULL, default=SHORT, help="a million pending, longer loads"
    )
    form.add_argument(
        "--smoke",
        action="store_const",
        dest="sizes",
        const=SMOKE,
        help="check that all works; the figures are meaningless",
    )
    form.add_argument(
        "--guard", action="store_const", dest="sizes", const=GUARD, help="small bursts that suffice to compare ratios"
    )
    parser.add_argument("--lead", type=float, metavar="S", help="seconds from the burst's requests to its due time")
    parser.add_argument("--runs", type=int, default=1, metavar="K", help="measure K times and give medians")
    parser.add_argument(
        "--save",
        type=Path,
        nargs="?",
        const=DIRECTORY,
        metavar="DIR",
        help="write a JSON file, by default to benchmarks/results",
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="compare with a saved result; code 1 if the hot path needs over 30 %% more CPU",
    )
    parser.add_argument(
        "--kernel",
        choices=_KERNELS,
        metavar="on|off|both",
        help="whether workers must, or must not, use the native extension; both: one after the other in each run",
    )
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs takes 1 or more")
    sizes: Sizes = options.sizes if options.lead is None else replace(options.sizes, lead_s=options.lead)
    only = tuple(dict.fromkeys(options.only or (NAMES if options.sizes is FULL else USUAL)))
    kernels = _KERNELS[options.kernel] if options.kernel else (None,)
    return Options(only, sizes, options.runs, options.save, options.against, kernels)


def _names(text: str) -> Sequence[str]:
    """Return the names of experiments that a word of the command line stands for."""
    words = text.split(",")
    unknown = [word for word in words if word not in (*NAMES, *GROUPS)]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join((*NAMES, *GROUPS))}")
    return [name for word in words for name in GROUPS.get(word, (word,))]
