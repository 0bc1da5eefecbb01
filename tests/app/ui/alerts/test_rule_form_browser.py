"""The form of an alert rule has the fields that its metric uses."""

import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import OpenPage

pytestmark = pytest.mark.browser

FIELDS = ("Threshold", "Groups", "Topics", "Within")


@pytest.mark.parametrize(
    ("metric", "fields"),
    [
        ("lag", ("Threshold", "Groups", "Topics")),
        ("dead_letters", ("Threshold", "Groups", "Within")),
        ("no_data", ("Threshold", "Topics")),
        ("disk", ("Threshold",)),
        ("engine", ()),
    ],
)
def test_the_form_shows_what_the_metric_uses(
    open_page: OpenPage, metric: str, fields: tuple[str, ...]
) -> None:
    page = open_page("/alerts/new")
    page.get_by_label("Metric", exact=True).select_option(metric)
    for name in FIELDS:
        expect(page.get_by_label(name, exact=True)).to_be_visible(visible=name in fields)
