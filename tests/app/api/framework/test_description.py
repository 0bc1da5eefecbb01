"""The API describes itself, offline, and the pages in docs are made from the same words."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from app.api.catalog import OPERATIONS
from app.api.framework.docs import markdown
from app.api.monitoring.metric_families import document as metrics_page
from app.version import VERSION
from tests.app.conftest import App

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[4]


async def test_every_operation_is_described_with_its_errors(running: App) -> None:
    document = (await running.http.get("/openapi.json")).json()
    described = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    assert described == {(item.method, item.path) for item in OPERATIONS}
    for methods in document["paths"].values():
        for entry in methods.values():
            assert entry["summary"]
            assert {"400", "421", "429", "500", "503"} <= set(entry["responses"])


async def test_every_reference_in_the_description_leads_somewhere(running: App) -> None:
    document = (await running.http.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]

    def check(part: Any) -> None:
        if isinstance(part, dict):
            if "$ref" in part:
                assert part["$ref"].rpartition("/")[2] in schemas
            for value in part.values():
                check(value)
        elif isinstance(part, list):
            for value in part:
                check(value)

    check(document)


async def test_the_page_of_the_api_needs_nothing_from_other_sites(running: App) -> None:
    page = await running.http.get("/docs/api")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    loaded = re.findall(r'(?:src|<link[^>]*href)="([^"]*)"', page.text)
    assert loaded == ["data:,", "/docs/api.css"]
    assert "<script" not in page.text
    assert "style=" not in page.text
    style = await running.http.get("/docs/api.css")
    assert style.headers["content-type"].startswith("text/css")
    for item in OPERATIONS:
        assert f'id="operation-{item.name}"' in page.text


@pytest.mark.parametrize(
    ("name", "text"), [("rest.md", markdown(OPERATIONS)), ("metrics.md", metrics_page())]
)
def test_a_page_is_made_from_the_code(name: str, text: str) -> None:
    assert (ROOT / "docs" / name).read_text() == text, f"make docs/{name} again"


def test_every_operation_has_an_example() -> None:
    for item in OPERATIONS:
        assert item.path.partition("{")[0].rstrip("/") in item.example, item.name


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["version"] == VERSION
