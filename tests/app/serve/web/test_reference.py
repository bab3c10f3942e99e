"""The reference of the HTTP API names everything that there is."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

import app.engine.ownership.partition_catch_up  # noqa: F401 - it has a metric
from app.engine.reports.state import Recovery
from app.ops.multiprocess.metrics import own
from app.serve.web.metrics import exposition
from app.serve.web.overview import InstallationOverview, Percentiles
from app.serve.web.overview_rows import DestinationRow, NamespaceRow, PartitionRow, QueueRow, WorkerRow
from app.serve.web.routes import register

if TYPE_CHECKING:
    from app.engine.reports.measures import Measures
    from tests.app.serve.web.conftest import FakeState

REFERENCE = (Path(__file__).parents[4] / "docs/reference/http-api.md").read_text("utf-8")
_METRICS = (Path(__file__).parents[4] / "docs/reference/metrics.md").read_text("utf-8")
#: The type and the labels that the reference gives each metric.
DOCUMENTED = {
    name: (kind, set(re.findall("`(.+?)`", labels)))
    for name, kind, labels in re.findall(r"^\| `(delay_\w+)` \| (\w+) \| (.*?) ?\|", _METRICS, re.MULTILINE)
    if not name.startswith("delay_gateway_")  # tests/app/gateway/test_metrics.py
}


@pytest.mark.parametrize(
    "struct", [InstallationOverview, Percentiles, DestinationRow, NamespaceRow, QueueRow, WorkerRow, PartitionRow]
)
def test_every_field_is_in_the_reference(struct: type[msgspec.Struct]) -> None:
    assert [name for name in struct.__struct_fields__ if f"`{name}`" not in REFERENCE] == []


def test_every_field_of_a_recovery_is_in_the_reference() -> None:
    assert [name for name in get_type_hints(Recovery) if f'"{name}"' not in REFERENCE] == []


def test_every_route_is_in_the_reference(state: "FakeState") -> None:
    web_app = web.Application()
    register(web_app, state)
    addresses = {resource.canonical for resource in web_app.router.resources()} - {"/static/{name}"}
    assert [address for address in sorted(addresses) if f"`GET {address}`" not in REFERENCE] == []


def test_metrics_are_documented_with_their_types_and_labels(
    state: "FakeState", record: Callable[..., dict[str, Any]], measures: "Measures"
) -> None:
    state.measures = measures
    state.report(record(0))
    shown = {}
    for family in text_string_to_metric_families(asyncio.run(exposition(state)).decode()):
        if family.name.startswith("delay_") and not family.name.startswith("delay_gateway_"):  # of the same process
            name = f"{family.name}_total" if family.type == "counter" else family.name
            shown[name] = family.type
            expected = DOCUMENTED.get(name, ("", set()))[1]
            labels = {label for sample in family.samples for label in sample.labels}
            labels -= {"le"} if family.type == "histogram" else set()
            assert labels in (expected, set()), name
    documented = {name: kind for name, (kind, _) in DOCUMENTED.items()}
    uncounted = {"delay_foreign_records_created": "gauge"}  # shown from the first foreign record on
    for family in text_string_to_metric_families(own({1: True}, {1: 0})):  # of several processes
        uncounted[f"{family.name}_total" if family.type == "counter" else family.name] = family.type
    assert shown | uncounted == documented
