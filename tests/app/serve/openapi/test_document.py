"""The document has all operations of workers, and it is complete in itself."""

import re
from typing import Any

from app.serve.openapi.document import document
from app.serve.web.problem_types import TYPES
from app.settings.settings import Settings
from app.worker import create_app
from punctual.contract import headers

#: The routes of workers, except for the console's pages and the routes between workers.
API = ("/api/", "/health/", "/metrics", "/problems/")


def operations() -> dict[tuple[str, str], dict[str, Any]]:
    return {(method.upper(), path): one for path, item in document()["paths"].items() for method, one in item.items()}


def test_the_document_has_exactly_the_routes_of_a_worker() -> None:
    web_app = create_app(Settings.from_env({})).web.web_app
    served = {
        (route.method, route.resource.canonical)
        for route in web_app.router.routes()
        if route.resource is not None and route.method != "HEAD" and route.resource.canonical.startswith(API)
    }
    ours = {route for route in served if not route[1].startswith("/api/v1/local/")}
    assert ours == {place for place, one in operations().items() if one.get("tags") != ["gateway"]}


def test_every_reference_has_a_target_and_every_schema_is_used() -> None:
    text = str(document())
    referred = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert referred == document()["components"]["schemas"].keys()


def test_only_the_names_of_native_headers_have_hyphens() -> None:
    schemas = document()["components"]["schemas"]
    named = {name for schema in schemas.values() for name in schema.get("properties", {})}
    assert {"max-late", "due_ms"} <= named
    assert {f"delay-{name}" for name in named if "-" in name} <= set(headers.REQUEST)


def test_parameters_of_paths_are_described() -> None:
    for (method, path), one in operations().items():
        described = {part["name"] for part in one["parameters"] if part["in"] == "path"}
        assert described == set(re.findall(r"\{(\w+)\}", path)), (method, path)


def test_every_problem_of_an_operation_is_a_type() -> None:
    named = {name for one in operations().values() for name in re.findall(r"`([\w-]+)`: ", str(one["responses"]))}
    assert named <= TYPES.keys()
    assert {"missing-due", "disk-full", "changed"} <= named
