"""`make test NAME=matrix`: the contract on each version of Kafka, with each guarantee.

Each version has one broker, on which the integration tests of `CONTRACT` run. The results are saved in results.json,
from which the table of docs/reference/compatibility.md is written.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from app.dev.broker import Broker
from app.dev.broker.jars import versions
from app.dev.broker.java import find_java, java_version

_ALL = "all"
GUARANTEES = ("at_least_once", "exactly_once")
#: The contract with producers and consumers: no message is lost or early when workers come, go and are killed.
CONTRACT = (
    "tests/integration/test_recurring.py",
    "tests/integration/test_changed_destinations.py",
    "tests/integration/test_commands.py",
    "tests/integration/test_order.py",
    "tests/integration/test_bytes.py",
    "tests/integration/test_compression.py",
    "tests/integration/test_dialects.py",
    "tests/integration/test_dead_letters.py",
    "tests/integration/test_undeliverable.py",
    "tests/integration/test_doctor.py::test_a_healthy_installation_has_no_error",
    "tests/integration/test_start.py::test_topics_are_made_for_production",
    "tests/integration/faults/test_dedupe_window.py",
    "tests/integration/faults/test_handover.py",
    "tests/integration/faults/test_lost_ids.py",
    "tests/integration/faults/test_zombies.py::test_a_zombies_batch_is_set_right_at_the_next_start_with_the_disk",
)
RESULTS = Path(__file__).with_name("results.json")
_ROOT = Path(__file__).parents[2]
PAGE = _ROOT / "docs/reference/compatibility.md"
_BEGIN, _END = "<!-- matrix: written by `make test NAME=matrix` -->\n", "<!-- end of matrix -->\n"

Result = dict[str, Any]


def run(bootstrap: str, version: str, guarantee: str, tests: Sequence[str] = CONTRACT) -> Result:
    """Run tests once on a broker of a version, and return their results."""
    began = time.monotonic()
    cases = _pytest(bootstrap, version, guarantee, "-n", str(min(4, len(tests))), *tests)
    outcomes = list(cases.values())
    return {
        "version": version,
        "guarantee": guarantee,
        "passed": outcomes.count("passed"),
        "skipped": outcomes.count("skipped"),
        "failed": [name for name, outcome in cases.items() if outcome == "failed"],
        "passed_again": [],
        "seconds": round(time.monotonic() - began),
        "java": java_version(find_java()),
        "date": datetime.now(UTC).date().isoformat(),
    }


def run_failed(bootstrap: str, result: Result) -> Result:
    """Run failed tests once more: some want deliveries in time, which a busy machine may not manage."""
    if not result["failed"]:
        return result
    cases = _pytest(bootstrap, result["version"], result["guarantee"], "-n", "0", *result["failed"])
    better = [name for name in result["failed"] if cases[name] == "passed"]
    return {
        **result,
        "passed": result["passed"] + len(better),
        "failed": [name for name in result["failed"] if name not in better],
        "passed_again": [*result["passed_again"], *better],
    }


def _pytest(bootstrap: str, version: str, guarantee: str, *arguments: str) -> dict[str, str]:
    """Run pytest, and return the outcome of each test: `passed`, `failed` or `skipped`."""
    [other] = set(GUARANTEES) - {guarantee}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"KAFKA_BOOTSTRAP_SERVERS": bootstrap, "KAFKA_VERSION": version, "GUARANTEE": guarantee}
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.xml")
        # Tests with a parametrized guarantee run with this one only; all others get it from the environment.
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", f"not {other}"]
        # The default format has no place for a test's records: pytest warns, and a warning is an error.
        command += ["-o", "junit_family=xunit1", f"--junitxml={report}"]
        subprocess.run([*command, *arguments], cwd=_ROOT, env=environment, check=False)
        cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - our own
    return {_node_id(case): _outcome(case) for case in cases}


def _node_id(case: ET.Element) -> str:
    return f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"


def _outcome(case: ET.Element) -> str:
    kinds = {child.tag for child in case}
    return "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"


def load() -> list[Result]:
    """Return the saved results."""
    found: list[Result] = json.loads(RESULTS.read_text("utf-8"))
    return found


def _save(result: Result) -> None:
    """Replace the last result of the same version and guarantee, and write the table again."""
    kept = {(one["version"], one["guarantee"]): one for one in [*load(), result]}
    ordered = [kept[pair] for pair in _pairs(versions(), GUARANTEES) if pair in kept]
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), ordered), "utf-8")


def _pairs(of: Sequence[str], guarantees: Sequence[str]) -> Iterator[tuple[str, str]]:
    return ((version, guarantee) for version in of for guarantee in guarantees)


def with_table(page: str, results: Sequence[Result]) -> str:
    """Replace the table of the page by the one for `results`."""
    before, rest = page.split(_BEGIN)
    _, after = rest.split(_END)
    cells = {(one["version"], one["guarantee"]): _cell(one) for one in results}
    rows = [
        " | ".join(["", version, *(cells.get((version, guarantee), "not run") for guarantee in GUARANTEES), ""]).strip()
        for version in versions()
    ]
    header = ["| Kafka | at least once | exactly once |", "| --- | --- | --- |"]
    return f"{before}{_BEGIN}\n" + "\n".join([*header, *rows]) + f"\n\n{_END}{after}"


def _cell(result: Mapping[str, Any]) -> str:
    failed = f", {len(result['failed'])} failed" if result["failed"] else ""
    skipped = f", {result['skipped']} left out" if result["skipped"] else ""
    again = f", {len(result['passed_again'])} at the second attempt" if result["passed_again"] else ""
    return f"{result['passed']} tests passed{again}{failed}{skipped} ({result['date']}, Java {result['java']})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen versions and guarantees; return the exit code, 1 if a test has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--versions", default=_ALL, help="of Kafka, with commas (default: all)")
    parser.add_argument("--guarantees", default=_ALL, help="with commas (default: all)")
    parser.add_argument("--failed", action="store_true", help="run only the tests that failed in the saved results")
    parser.add_argument("--save", action="store_true", help="write the results and the table of the documentation")
    options = parser.parse_args(arguments)
    chosen = versions() if options.versions == _ALL else options.versions.split(",")
    guarantees = GUARANTEES if options.guarantees == _ALL else options.guarantees.split(",")
    before = {(one["version"], one["guarantee"]): one for one in load() if one["failed"]} if options.failed else {}
    broken = 0
    for version in chosen:
        pairs = [pair for pair in _pairs([version], guarantees) if pair in before or not options.failed]
        if not pairs:
            continue
        os.environ["KAFKA_VERSION"] = version
        with Broker() as broker:
            for pair in pairs:
                print(f"Kafka {version}, {pair[1]}", flush=True)
                first = before[pair] if options.failed else run(broker.bootstrap, *pair)
                result = run_failed(broker.bootstrap, first)
                print(json.dumps(result), flush=True)
                broken += len(result["failed"])
                if options.save:
                    _save(result)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
