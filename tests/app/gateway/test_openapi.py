"""The document has exactly the routes of a gateway, and a gateway accepts its examples."""

from typing import Any

from aiohttp import web

from app.serve.openapi.document import document
from tests.app.gateway.conftest import Stage

METHODS = ("get", "post", "put", "patch", "delete")


def operations() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the operations that gateways serve."""
    return {
        (method.upper(), path): one
        for path, item in document()["paths"].items()
        for method, one in item.items()
        if one.get("tags") != ["worker"]
    }


def routes(web_app: web.Application) -> set[tuple[str, str]]:
    return {(route.method, route.resource.canonical) for route in web_app.router.routes() if route.resource is not None}


async def test_the_document_has_exactly_the_routes(stage: Stage) -> None:
    served = {route for route in routes(stage.web_app) if route[0] != "HEAD" and not route[1].startswith("/kafka/")}
    assert served == set(operations())


async def test_the_document_is_served(stage: Stage) -> None:
    status, served = await stage.ask("GET", "/api/v1/openapi.json")
    assert (status, served["openapi"], served["paths"].keys()) == (200, "3.1.0", document()["paths"].keys())


async def test_every_example_is_accepted(stage: Stage) -> None:
    tried = 0
    for (method, path), one in operations().items():
        filled = path.format(**{part["name"]: part["example"] for part in one["parameters"] if part["in"] == "path"})
        for media_type, content in one.get("requestBody", {}).get("content", {}).items():
            for name, example in content["examples"].items():
                body = example["value"]
                status, answer = await stage.ask(method, filled, body, headers={"Content-Type": media_type})
                assert status in (200, 202), (method, path, name, answer)
                assert answer.get("error_code", 200) == 200, (method, path, name, answer)
                tried += 1
    assert tried > 10
