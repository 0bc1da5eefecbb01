"""The page of access: its settings are accepted, its table of refusals is complete."""

import re
from pathlib import Path

import pytest

from app.security.oidc import refusals
from app.settings import load
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "access.md").read_text()
BLOCKS = re.findall(r"<!-- settings -->\n+```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_settings_shown_are_accepted_as_they_stand(block: str, tmp_path: Path) -> None:
    config = tmp_path / "kitemq.toml"
    config.write_text(block)
    assert load(config=config, environ={}).has_oidc


def test_every_refusal_of_a_login_is_explained() -> None:
    codes = set(refusals.STATUSES)
    assert len(codes) >= 9
    explained = set(re.findall(r"^\| `(oidc_[a-z_]+)` \|", PAGE, re.MULTILINE))
    assert codes - explained == {"oidc_off", "oidc_busy"}, "what explains itself"
    assert explained <= codes
    source = Path(refusals.__file__).read_text()
    listed = set(re.findall(r'^    "(oidc_[a-z_]+)": \d+,  # ', source, re.MULTILINE))
    assert listed == codes
