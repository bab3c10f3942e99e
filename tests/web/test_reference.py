"""The reference of the HTTP API names everything that there is."""

from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

import msgspec
import pytest
from aiohttp import web

from app.web.metrics import exposition
from app.web.overview import Destination, Overview, Partition, Queue, Worker
from app.web.percentiles import Percentiles
from app.web.routes import register
from app.web.state import Recovery

if TYPE_CHECKING:
    from tests.web.conftest import FakeState

REFERENCE = (Path(__file__).parents[2] / "docs/reference/http-api.md").read_text("utf-8")


@pytest.mark.parametrize("struct", [Overview, Percentiles, Destination, Queue, Worker, Partition])
def test_every_field_is_in_the_reference(struct: type[msgspec.Struct]) -> None:
    assert [name for name in struct.__struct_fields__ if f"`{name}`" not in REFERENCE] == []


def test_every_field_of_a_recovery_is_in_the_reference() -> None:
    assert [name for name in get_type_hints(Recovery) if f'"{name}"' not in REFERENCE] == []


def test_every_address_is_in_the_reference(state: "FakeState") -> None:
    web_app = web.Application()
    register(web_app, state)
    addresses = {resource.canonical for resource in web_app.router.resources()} - {"/static/{name}"}
    assert [address for address in sorted(addresses) if f"`GET {address}`" not in REFERENCE] == []


def test_every_metric_is_in_the_reference(state: "FakeState") -> None:
    names = {line.split()[2] for line in exposition(state).decode().splitlines() if line.startswith("# TYPE delay_")}
    assert names
    assert [name for name in sorted(names) if f"`{name}" not in REFERENCE] == []
