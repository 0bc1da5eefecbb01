"""Times that people type: by the clocks of the zone that they chose, shown beside the field."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import expect

from app.ui.framework import typed_time, zones
from app.ui.framework.forms import Form
from app.ui.framework.typed_time import NoMoment
from app.ui.framework.zones import UTC_ZONE, Zone
from app.ui.messages import query as message_query
from tests.app.ui.conftest import OpenPage, Site

BERLIN = Zone("Europe/Berlin")
HTML = {"Accept": "text/html"}
# 2026-03-29 the clocks go from 2:00 to 3:00, 2026-10-25 from 3:00 back to 2:00.
LEFT_OUT = "2026-03-29T02:30"
TWICE = "2026-10-25T02:30"
FIELDS = {
    "/audit": ("from", "to"),
    "/messages?topic=orders": ("from", "to"),
    "/groups/warehouse/offsets": ("at",),
    "/groups/warehouse/config": ("start_at",),
    "/topics/orders/purge": ("before",),
    "/scheduled/REMINDER1": ("at",),
}


@pytest.fixture
def berliner(site: Site) -> Iterator[httpx.Client]:
    """A browser whose user chose Berlin's time."""
    cookies = {"kitemq_zone": "Europe/Berlin"}
    with httpx.Client(base_url=site.base, headers=HTML, cookies=cookies) as client:
        yield client


def test_a_time_is_read_by_the_clocks_of_its_zone() -> None:
    assert typed_time.moment_ms("2026-07-01T12:00") == 1_782_907_200_000
    assert typed_time.moment_ms("2026-07-01T12:00", BERLIN) == 1_782_900_000_000
    assert typed_time.moment_ms("2026-07-01T12:00Z", BERLIN) == 1_782_907_200_000
    assert typed_time.moment_text(1_782_900_000_000, BERLIN) == "2026-07-01T12:00:00"
    assert typed_time.moment_text(1_782_900_000_123, BERLIN) == "2026-07-01T12:00:00.123"


def test_a_time_that_the_clocks_leap_over_is_refused_with_the_one_after_it() -> None:
    with pytest.raises(NoMoment, match=r"02:30:00 does not exist in Europe/Berlin.*03:30:00"):
        typed_time.moment_ms(LEFT_OUT, BERLIN)
    assert typed_time.moment_ms(LEFT_OUT) == 1_774_751_400_000


def test_a_time_that_comes_twice_means_the_first() -> None:
    assert typed_time.moment_ms(TWICE, BERLIN) == typed_time.moment_ms("2026-10-25T00:30Z")


def test_a_time_after_the_calendar_s_end_is_shown_as_its_last_day() -> None:
    for zone in (BERLIN, Zone("Pacific/Kiritimati"), Zone("Etc/GMT+12")):
        assert typed_time.moment_text(999_999_999_999_999, zone).startswith("9999-12-3")


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01T00:00", "0001-01-01T00:00", "1969-01-01"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(NoMoment):
        typed_time.moment_ms(text, BERLIN)


def test_a_field_shows_its_moment_in_the_zone_of_the_reader() -> None:
    form = Form({"at": "2026-07-01T12:00"})
    assert form.moment("at", "Europe/Berlin", UTC_ZONE) == 1_782_900_000_000
    assert form.values["at"] == "2026-07-01T10:00:00"
    wrong = Form({"at": "2026-07-01T12:00"})
    assert wrong.moment("at", "Mars/Olympus", UTC_ZONE) is None
    assert "Mars/Olympus" in wrong.errors["at"]


def test_an_address_means_the_same_moments_whoever_opens_it() -> None:
    values = {"topic": "t", "from": "2026-07-01T12:00", "zone": "Europe/Berlin"}
    form, query = message_query.read(values, 0, zones.Zone("Asia/Tokyo"))
    assert (query.begin_ms, form.values["from"]) == (1_782_900_000_000, "2026-07-01T19:00:00")
    assert "from=2026-07-01T10%3A00%3A00" in message_query.address(query, "/messages")


@pytest.mark.parametrize("path", FIELDS)
def test_the_zone_stands_beside_each_field_and_goes_along(
    berliner: httpx.Client, path: str
) -> None:
    text = berliner.get(path).text
    for name in FIELDS[path]:
        label = re.search(rf'<label for="field-{name}">([^<]*)', text)
        assert label is not None
        assert "(Europe/Berlin)" in label[1]
    assert text.count('name="zone" value="Europe/Berlin"') == len(FIELDS[path])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/audit?from={at}", "from"),
        ("/messages?topic=orders&to={at}", "to"),
        ("/groups/warehouse/offsets?step=scope&to=time&at={at}", "at"),
        ("/topics/orders/purge?how=before&before={at}", "before"),
    ],
)
def test_a_gap_is_told_at_the_field_with_what_was_typed_kept(
    berliner: httpx.Client, path: str, name: str
) -> None:
    answer = berliner.get(path.format(at=LEFT_OUT) + "&zone=Europe/Berlin")
    assert (answer.status_code, "does not exist in Europe/Berlin" in answer.text) == (422, True)
    field = re.search(rf'<input id="field-{name}"[^>]*>', answer.text)
    assert field is not None
    assert LEFT_OUT in field[0]
    assert 'aria-invalid="true"' in field[0]


def test_a_reset_goes_to_the_moment_that_was_typed(berliner: httpx.Client) -> None:
    query = {
        "step": "review",
        "to": "time",
        "at": "2026-07-01T12:00",
        "zone": "Europe/Berlin",
        "topic": "orders",
    }
    twin = berliner.get(f"/groups/warehouse/offsets?{urlencode(query)}&format=json").json()
    assert "2026-07-01 10:00:00" in twin["review"]["to"]
    assert twin["form"]["values"]["at"] == "2026-07-01T12:00:00"


def test_a_typed_time_is_sent_with_its_zone_by_a_browser(open_page: OpenPage, site: Site) -> None:
    page = open_page("/audit", javascript=False)
    page.context.add_cookies([{"name": "kitemq_zone", "value": "Asia/Tokyo", "url": site.base}])
    page.goto("/audit")
    page.get_by_label("From (Asia/Tokyo)").fill("2026-07-01T12:00")
    page.locator("#audit-filter").get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"zone=Asia%2FTokyo"))
    expect(page.get_by_label("From (Asia/Tokyo)")).to_have_value(re.compile("2026-07-01T12:00"))
