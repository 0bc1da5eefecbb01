"""What is taken over from others is unchanged, licensed, and nothing comes from elsewhere."""

import hashlib
import re
import tomllib
from pathlib import Path

import pytest

from app.ui.framework import assets, templating

FRAMEWORK = Path(assets.__file__).parent / "static"
FOLDERS = (FRAMEWORK / "vendor", Path(__file__).parents[1] / "vendor")
MANIFEST = "VENDOR.toml"


@pytest.mark.parametrize("folder", FOLDERS, ids=["console", "tests"])
def test_vendored_files_are_the_ones_their_manifest_names(folder: Path) -> None:
    entries = tomllib.loads((folder / MANIFEST).read_text())["file"]
    for entry in entries:
        content = (folder / entry["name"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"], entry["name"]
        assert entry["version"] in entry["name"]
        assert (folder / entry["licence_file"]).is_file()
    named = {entry["name"] for entry in entries} | {entry["licence_file"] for entry in entries}
    assert {path.name for path in folder.iterdir()} == named | {MANIFEST}


@pytest.mark.parametrize(
    "path",
    sorted(path for root in templating.ROOTS for path in root.glob("*.html")),
    ids=lambda path: path.name,
)
def test_templates_hold_no_inline_script_or_style_and_no_foreign_host(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\sstyle=", text)
    assert not re.search(r"\son\w+=", text)
    assert not re.search(r"\shx-on", text)
    assert not re.search(r"https?://|//cdn", text)
    for script in re.findall(r"<script[^>]*>", text):
        assert "src=" in script or 'type="application/json"' in script


def test_our_own_script_evaluates_no_text_and_builds_no_html() -> None:
    text = "".join(path.read_text() for root in assets.ROOTS for path in root.glob("*.js"))
    assert not re.search(
        r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write", text
    )
