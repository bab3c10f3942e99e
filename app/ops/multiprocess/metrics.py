"""Merges the metrics of several processes: each sample gets a label `process`."""

from collections.abc import Iterable, Mapping

_HEADS = ("# HELP ", "# TYPE ")


def merged(expositions: Mapping[int, str]) -> str:
    """Return metrics in Prometheus' text format as one text, in which each family's samples are together.

    `expositions` has them by process number.
    """
    heads: dict[str, dict[str, str]] = {}
    samples: dict[str, list[str]] = {}
    for number, text in expositions.items():
        family = ""
        for line in text.split("\n"):  # splitlines() would also split at characters that label values may contain
            head = next((head for head in _HEADS if line.startswith(head)), None)
            if head is not None:
                family = line[len(head) :].partition(" ")[0]
                heads.setdefault(family, {}).setdefault(head, line)
            elif line and not line.startswith("#"):
                samples.setdefault(family, []).append(_labelled(line, number))
    return "".join(_lines(heads, samples))


def _labelled(line: str, number: int) -> str:
    """Return a sample of the Prometheus text format with the number of its process as a label."""
    label, brace, space = f'process="{number}"', line.find("{"), line.find(" ")
    if 0 <= brace < space:
        comma = "" if line[brace + 1] == "}" else ","
        return f"{line[: brace + 1]}{label}{comma}{line[brace + 1 :]}"
    return f"{line[:space]}{{{label}}}{line[space:]}"


def _lines(heads: Mapping[str, Mapping[str, str]], samples: Mapping[str, Iterable[str]]) -> Iterable[str]:
    for family, lines in heads.items():
        for head in _HEADS:
            if head in lines:
                yield f"{lines[head]}\n"
        for line in samples.get(family, ()):
            yield f"{line}\n"


def own(up: Mapping[int, bool], restarts: Mapping[int, int]) -> str:
    """Return the metrics that the supervisor has about the processes: `up` and `restarts`."""
    lines = [
        "# HELP delay_process_up 1 while a process of this worker serves and its metrics are included.",
        "# TYPE delay_process_up gauge",
        *(f'delay_process_up{{process="{number}"}} {int(is_up)}' for number, is_up in up.items()),
        "# HELP delay_process_restarts_total How often a process of this worker was restarted.",
        "# TYPE delay_process_restarts_total counter",
        *(f'delay_process_restarts_total{{process="{number}"}} {times}' for number, times in restarts.items()),
    ]
    return "\n".join(lines) + "\n"
