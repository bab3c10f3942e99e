"""Whatever comes, a worker on a real Kafka answers as its OpenAPI says, and never with 500."""

from pathlib import Path

from tests.harness.described import needs_schemathesis, operations_checked
from tests.harness.fuzz import share
from tests.integration.installation import Installation

pytestmark = needs_schemathesis

_EXAMPLES = 10


def test_no_request_gets_an_answer_of_a_worker_that_the_document_does_not_know(
    installation: Installation, tmp_path: Path
) -> None:
    tested = operations_checked(installation.worker.url, tmp_path, share(_EXAMPLES), "--exclude-tag", "gateway")

    assert tested > 30, "all that a worker serves"
    assert "Traceback" not in installation.worker.log
