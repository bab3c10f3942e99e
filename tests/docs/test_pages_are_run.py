"""Each page with commands or programs is run by a test, or it is listed here with the reason why it is not."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.worker import ROOT

_CODE = re.compile(r"^ *```(?:sh|python|java|go|js)$", re.MULTILINE)
_DOCS, _KAFKA = "tests/docs/test_documents_run.py", "tests/integration"
#: The test that runs a page's blocks, by the page.
RUN = {
    "README.md": _DOCS,
    "docs/tutorial.md": _DOCS,
    "docs/how-to/acknowledged-queue.md": f"{_KAFKA}/test_how_tos.py",
    "docs/how-to/backup.md": f"{_KAFKA}/test_cli_kafka.py",
    "docs/how-to/dead-letters.md": f"{_KAFKA}/test_how_tos.py",
    "docs/how-to/debounce.md": "tests/docs/test_debounce_how_to.py",
    "docs/how-to/access.md": "tests/docs/test_access_how_to.py",
    "docs/how-to/deduplicate.md": "tests/docs/test_deduplicate_how_to.py",
    "docs/how-to/delete-customer-data.md": f"{_KAFKA}/test_delete_how_to.py",
    "docs/how-to/deliver-over-http.md": "tests/docs/test_http_how_to.py",
    "docs/how-to/encrypt.md": f"{_KAFKA}/test_encryption.py",
    "docs/how-to/foreign-topics.md": _DOCS,
    "docs/how-to/gateway.md": f"{_KAFKA}/test_gateway_fallback.py",
    "docs/how-to/many-clusters.md": "tests/docs/test_many_clusters_how_to.py",
    "docs/how-to/many-teams.md": "tests/docs/test_many_teams.py",
    "docs/how-to/migrate-from-airtel.md": _DOCS,
    "docs/how-to/migrate-from-etf1.md": _DOCS,
    "docs/how-to/migrate-from-rabbitmq.md": _DOCS,
    "docs/how-to/migrate-from-sorted-set.md": _DOCS,
    "docs/how-to/migrate-from-spring-retry.md": _DOCS,
    "docs/how-to/move-to-another-cluster.md": f"{_KAFKA}/test_move_how_to.py",
    "docs/how-to/outbox.md": f"{_KAFKA}/test_outbox_how_to.py",
    "docs/how-to/pause-and-rate.md": "tests/docs/test_pause_and_rate.py",
    "docs/how-to/recurring.md": "tests/docs/test_recurring_how_to.py",
    "docs/how-to/repartition.md": "tests/docs/test_repartition_how_to.py",
    "docs/how-to/retry.md": f"{_KAFKA}/test_how_tos.py",
    "docs/how-to/test-your-code.md": "tests/docs/test_test_your_code.py",
    "docs/how-to/use-from-go.md": f"{_KAFKA}/clients/test_go.py",
    "docs/how-to/use-from-java.md": f"{_KAFKA}/clients/test_java.py",
    "docs/how-to/use-from-node.md": f"{_KAFKA}/clients/test_node.py",
    "docs/how-to/use-from-python.md": "tests/punctual/client/test_docs.py",
    "docs/reference/cli.md": "tests/docs/test_cli_is_documented.py",
    "docs/reference/gateway.md": f"{_KAFKA}/test_gateway_http.py",
    "docs/reference/http-api.md": "tests/docs/test_http_api.py",
}
#: Why a page's blocks are not run as they stand.
NOT_RUN = {
    "docs/explanation/test-results.md": "it takes hours: tests/chaos and tests/simulation run the short forms",
    "docs/how-to/bulk.md": "its data is the reader's: tests/docs/test_pipeline_commands.py parses each command",
    "docs/how-to/cold-tier.md": "its data is the reader's: tests/docs/test_pipeline_commands.py parses each command",
    "docs/how-to/deploy.md": "it needs Docker: tests/deploy runs the programs of the images",
    "docs/how-to/development-broker.md": "each test run starts this broker by the same class",
    "docs/how-to/kubernetes.md": "it needs a cluster: tests/docs/test_kubernetes_how_to.py compares it with the chart",
    "docs/how-to/ledger.md": "its data is the reader's: tests/docs/test_pipeline_commands.py parses each command",
    "docs/how-to/measure.md": "it takes hours: tests/benchmarks runs the short forms",
    "docs/how-to/operate.md": "its names are the reader's: tests/docs/test_commands_of_pages.py parses them",
    "docs/how-to/secure.md": "its logins are the reader's: tests/integration/test_security.py uses such settings",
    "docs/how-to/size.md": "tests/deploy/test_size.py runs the same program",
    "docs/how-to/trace.md": "it needs a collector: tests/integration/test_traces.py has one",
    "docs/how-to/troubleshooting.md": "it looks for faults: tests/docs/test_commands_of_pages.py parses its commands",
    "docs/how-to/upgrade.md": "it needs two releases: tests/chaos upgrades and rolls back",
    "docs/reference/compatibility.md": "it checks the reader's brokers: tests/app/ops/doctor runs the doctor",
    "docs/how-to/spark-clusters.md": "it needs clusters: tests/pipeline/test_cluster.py has one of processes",
}


def pages() -> Iterator[str]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        name = page.relative_to(ROOT).as_posix()
        if not name.startswith("docs/decisions/") and _CODE.search(page.read_text("utf-8")):
            yield name


def test_each_page_is_run_or_has_a_reason() -> None:
    assert sorted([*RUN, *NOT_RUN]) == sorted(pages())


@pytest.mark.parametrize(("page", "test"), RUN.items())
def test_the_test_names_its_page(page: str, test: str) -> None:
    text = (ROOT / test).read_text("utf-8")
    assert Path(page).name in text or f'"{Path(page).stem}"' in text


@pytest.mark.parametrize("reason", NOT_RUN.values())
def test_tests_that_a_reason_names_are_there(reason: str) -> None:
    assert not [named for named in re.findall(r"tests/[\w/.]*\w", reason) if not (ROOT / named).exists()]
