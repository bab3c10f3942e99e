"""The short form of every scenario: the guarantees hold under every fault."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.ground import Clusters
from tests.chaos.scenario import Scenario, scenarios

SHORT = [(one, guarantee) for one in scenarios() for guarantee in one.ci]


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    """Clusters for all scenarios, those on as many brokers one after the other."""
    with Clusters() as found:
        yield found


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize(("one", "guarantee"), SHORT, ids=[f"{one.name}-{guarantee}" for one, guarantee in SHORT])
def test_the_promise_holds_through(one: Scenario, guarantee: str, clusters: Clusters, tmp_path: Path) -> None:
    result = one.run(clusters.of(one.brokers), tmp_path, guarantee, seed=1, short=True)
    assert not result["faults"], "\n".join([str(result), *result["faults"]])
