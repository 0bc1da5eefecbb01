"""The page of settings is what the code says."""

import dataclasses

import pytest

from app.settings import Settings, document
from engine.config import EngineConfig
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "settings.md"


def test_the_page_of_settings_is_made_from_the_code() -> None:
    assert PAGE.read_text() == document(), "run python -m app.settings > docs/settings.md"


@pytest.mark.parametrize("shape", [Settings, EngineConfig])
def test_every_setting_is_on_the_page_and_says_what_it_is_for(shape: type) -> None:
    text = PAGE.read_text()
    for field in dataclasses.fields(shape):
        assert f"`{field.name}`" in text
        assert len(field.metadata["help"]) > 10, field.name
