"""Hooks of MkDocs: the pages at the repository's root and the decisions join the site.

README.md is the site's first page. Links between the root and docs/ are rewritten, since on the
site all pages lie in one folder; the files themselves stay as the repository's host shows them.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
LICENSE_URL = "https://www.apache.org/licenses/LICENSE-2.0"
LINK = re.compile(r"(\]\()([^)\s#]+)")
COMMENT = re.compile(r"^(<!-- \w+ -->\n)(?=\S)", re.MULTILINE)
HEADING = re.compile(r"^# (\d+)\. (.+)$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add every decision to the part Design, in its order."""
    folder = Path(config.docs_dir) / "adr"
    pages = [{_decision_title(path): f"adr/{path.name}"} for path in sorted(folder.glob("*.md"))]
    for part in config.nav or []:
        if "Design" in part:
            part["Design"].append({"Decisions": pages})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository's root under the names that the site gives them."""
    for name, target in ROOT_PAGES.items():
        text = LINK.sub(_from_root, (ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, target, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links of pages in docs/ to the root's pages on the site, and part comments from text."""
    first = min(path.name for path in (ROOT / "docs" / "adr").glob("*.md"))
    markdown = COMMENT.sub(r"\1\n", markdown).replace("](adr/)", f"](adr/{first})")
    for name, target in ROOT_PAGES.items():
        markdown = markdown.replace(f"](../{name}", f"]({target}")
    return markdown


def _from_root(match: re.Match[str]) -> str:
    link = match[2]
    if link == "LICENSE":
        return match[1] + LICENSE_URL
    return match[1] + ROOT_PAGES.get(link, link.removeprefix("docs/"))


def _decision_title(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    found = HEADING.search(text)
    return f"{found[1]}. {found[2]}" if found else text.partition("\n")[0].lstrip("# ")
