"""A result against an earlier one, which may be from another machine."""

from benchmarks.figures import Figures, listed
from benchmarks.report import aligned, formatted
from benchmarks.result import Result

#: Runs on one quiet machine differ by a tenth; beyond this the code has become slower.
LIMIT = 1.3
HOT_PATH = ("ingest", "drain")


def ratios(now: Figures, then: Figures) -> Figures:
    """Return now ÷ then for every figure that both have."""
    return {
        group: {
            name: value / then[group][name]
            for name, value in values.items()
            if name in then[group] and then[group][name] > 0
        }
        for group, values in now.items()
        if group in then
    }


def slower(now: Figures, then: Figures) -> list[str]:
    """Say which parts of the hot path take over 30 % more CPU a message, in calibration loops."""
    ratios_by_group = ratios(now, then)
    return [
        f"{group} takes {ratios_by_group[group]['cpu_loops']:.2f} times the CPU a message"
        for group in HOT_PATH
        if ratios_by_group.get(group, {}).get("cpu_loops", 0) > LIMIT
    ]


def differences(now: Result, then: Result) -> list[str]:
    """Say what makes the figures of two results hard to compare."""
    sentences = []
    if now.sizes != then.sizes:
        sentences.append(f"sizes: {now.sizes.name} now, {then.sizes.name} then")
    for name in sorted({*now.settings, *then.settings}):
        setting_now, setting_then = now.settings.get(name, "default"), then.settings.get(name, "default")
        if setting_now != setting_then:
            sentences.append(f"{name}: {setting_now} now, {setting_then} then")
    if now.kernel != then.kernel:
        sentences.append(f"native extension: {now.kernel} now, {then.kernel} then")
    if now.machine.cores != then.machine.cores:
        sentences.append(f"cores: {now.machine.cores} now, {then.machine.cores} then")
    sentences += [f"the machine was busy {when}" for it, when in ((now, "now"), (then, "then")) if it.machine.busy]
    return sentences


def table(now: Result, then: Result, heads: tuple[str, str] = ("now", "then")) -> str:
    """Return now, then and their ratio, line by line; marked where now is worse by over 30 %."""
    rows = []
    for group, name, kind, ratio in listed(ratios(now.figures, then.figures)):
        worse = ratio > LIMIT if kind.better == "low" else ratio < 1 / LIMIT
        mark = "worse" if worse and kind.better else ""
        pair = (formatted(it.figures[group][name], kind) for it in (now, then))
        rows.append((group, kind.label, *pair, f"{ratio:.2f}", mark))
    return aligned([("", "", *heads, "ratio", ""), *rows], right=(2, 3, 4))
