"""Each field of the dashboard is in Grafana's schema, because Grafana ignores unknown fields."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as schema
from grafana_foundation_sdk.models import units

from deploy.monitoring.generate import files

MADE: dict[str, Any] = json.loads(files()["dashboard.json"])


@pytest.fixture(scope="module", autouse=True)
def panels_and_data_sources() -> None:
    """Have the schema know what panels and data sources of each kind may say."""
    plugins.register_default_plugins()


def lost(said: Any, read: Any, path: str = "") -> Iterator[str]:
    """Yield the places whose value changes when Grafana's schema reads it."""
    if isinstance(said, dict) and isinstance(read, dict):
        for name, value in said.items():
            yield from lost(value, read.get(name, "nothing"), f"{path}/{name}")
    elif isinstance(said, list) and isinstance(read, list) and len(said) == len(read):
        for place, (one, other) in enumerate(zip(said, read, strict=True)):
            yield from lost(one, other, f"{path}/{place}")
    elif said != read:
        yield f"{path} is {said!r}, and read as {read!r}"


def read(made: dict[str, Any]) -> Any:
    """Return a dashboard as the schema has it."""
    return json.loads(JSONEncoder().encode(schema.Dashboard.from_json(made)))


def test_the_schema_has_a_place_for_all_that_the_dashboard_says() -> None:
    assert list(lost(MADE, read(MADE))) == []


def test_a_member_that_the_schema_lacks_is_found() -> None:
    made = json.loads(json.dumps(MADE))
    made["panels"][1]["fieldConfig"]["default"] = made["panels"][1]["fieldConfig"].pop("defaults")
    assert list(lost(made, read(made))) != []


def test_each_panel_is_of_a_kind_and_each_number_of_a_unit_that_there_is() -> None:
    panels = [panel for panel in MADE["panels"] if panel["type"] != "row"]
    assert {panel["type"] for panel in panels} <= {"stat", "timeseries"}
    known = {value for name, value in vars(units).items() if name[0].isupper() and isinstance(value, str)}
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in panels} <= known


def test_each_query_asks_prometheus_for_something() -> None:
    panels = [panel for panel in schema.Dashboard.from_json(MADE).panels or [] if isinstance(panel, schema.Panel)]
    queries = [query for panel in panels for query in panel.targets or []]
    assert {type(query).__module__.rpartition(".")[2] for query in queries} == {"prometheus"}
    assert all(getattr(query, "expr", "") for query in queries)
