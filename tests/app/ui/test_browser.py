"""The console in a real Chromium."""

import functools
import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.app.ui.accessibility import serious_faults
from tests.app.ui.addresses import PAGES
from tests.app.ui.conftest import PATIENCE_MS, OpenPage, Site
from tests.app.ui.inspection import Inspection, inspect
from tests.app.ui.layout import PHONE, TARGET_PX, layout_faults
from tests.app.ui.scenery import HTMX_BODY, SCRIPT_BODY, Scenery

pytestmark = pytest.mark.browser

# A test of every page is cut into parts, so that none comes near the limit on a slow machine.
PARTS = 6
in_parts = pytest.mark.parametrize("pages", [PAGES[part::PARTS] for part in range(PARTS)])
NARROW = 390
# What other pages and controls lead to.
NOT_IN_THE_MENU = {"/views", "/palette", "/login", "/no-such-page"}


def live_requests(page: Page) -> list[Request]:
    """Fills up with the requests that a page's own refreshing makes."""
    requests: list[Request] = []
    page.on("request", lambda r: requests.append(r) if "hx-request" in r.headers else None)
    return requests


def wait_for(page: Page, requests: list[Request], count: int) -> None:
    """Wait, up to 30 s, until so many requests were made."""
    for _ in range(600):
        if len(requests) >= count:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{len(requests)} requests were made, {count} were awaited")


Inspector = Callable[[tuple[str, ...]], dict[str, Inspection]]


@pytest.fixture(scope="module")
def inspected(chromium: Browser, site: Site) -> Inspector:
    """What one visit of each of these pages says; several tests ask for the same ones."""

    @functools.cache
    def inspected(pages: tuple[str, ...]) -> dict[str, Inspection]:
        errors: list[str] = []
        with chromium.new_context(base_url=site.base) as context:
            context.add_cookies([{"name": "kitemq_refresh", "value": "0", "url": site.base}])
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            page.on("pageerror", lambda error: errors.append(str(error)))
            inspections = inspect(page, pages)
        assert not errors, errors
        return inspections

    return inspected


@in_parts
def test_no_page_breaks_the_content_policy_or_asks_another_host(
    inspected: Inspector, site: Site, pages: tuple[str, ...]
) -> None:
    for path, inspection in inspected(pages).items():
        assert inspection.violations == [], path
        assert inspection.hosts == {site.base.removeprefix("http://")}, path


@pytest.mark.parametrize("path", ["/create/topic", "/topics/orders/produce"])
def test_a_form_says_that_the_server_did_not_answer_and_keeps_what_was_typed(
    open_page: OpenPage, path: str
) -> None:
    page = open_page(path)
    is_topic = path == "/create/topic"
    form = page.locator("#topic-form" if is_topic else "#topic-produce")
    field = form.locator("[name=name]" if is_topic else "[name=body]")
    field.fill("typed-while-offline")
    button = form.get_by_role("button", name="Create" if is_topic else "Send")
    page.route("**/*", lambda route: route.abort())
    button.click()
    note = form.get_by_role("alert")
    expect(note).to_contain_text("No response from the server")
    expect(field).to_have_value("typed-while-offline")
    expect(button).to_be_enabled()
    page.unroute("**/*")
    button.click()
    expect(note).to_have_count(0)
    expect(page.locator("main")).to_contain_text("typed-while-offline" if is_topic else "stored")


@pytest.mark.parametrize("theme", ["light", "dark"])
@in_parts
def test_no_page_has_a_serious_accessibility_fault(
    inspected: Inspector, theme: str, pages: tuple[str, ...]
) -> None:
    inspections = inspected(pages).items()
    faults = {path: there for path, each in inspections if (there := each.accessibility[theme])}
    assert not faults, json.dumps(faults, indent=1)


def test_dialogs_have_no_serious_accessibility_fault(open_page: OpenPage) -> None:
    page = open_page("/topics/shipments")
    page.get_by_role("link", name="Delete").click()
    expect(page.locator("#dialog")).to_be_visible()
    assert serious_faults(page, "#dialog") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_first_paint_has_the_chosen_colours(open_page: OpenPage, theme: str) -> None:
    other = "dark" if theme == "light" else "light"
    page = open_page("/topics", theme=other, javascript=False)
    page.locator(".menu-button").click()
    page.locator("#preference-theme").select_option(theme)
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    background = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    assert background == ("rgb(13, 19, 27)" if theme == "dark" else "rgb(244, 246, 249)")


@in_parts
def test_no_page_overflows_any_width_or_has_small_targets_on_a_phone(
    inspected: Inspector, pages: tuple[str, ...]
) -> None:
    inspections = inspected(pages).items()
    faults = {path: each.layout for path, each in inspections if each.layout}
    assert not faults, json.dumps(faults, indent=1)


def test_small_targets_and_overflow_are_noticed(open_page: OpenPage) -> None:
    page = open_page("/topics", width=PHONE)
    page.locator("#topic-orders a").first.evaluate("link => link.style.padding = 0")
    page.locator("h1").evaluate("title => title.style.minWidth = '500px'")
    (overflow, small) = layout_faults(page)[PHONE]
    assert overflow.startswith("overflow")
    assert "/topics/orders" in small
    assert int(small.partition(":")[0].partition("x")[2]) < TARGET_PX


def test_on_a_phone_a_row_is_a_card_that_leaves_no_column_out(open_page: OpenPage) -> None:
    page = open_page("/topics/orders/messages", width=NARROW)
    card = page.locator("tbody tr").nth(4)
    labels = [
        cell.get_attribute("data-label") for cell in card.locator("td").all() if cell.is_visible()
    ]
    assert labels == ["Stored", "Tag", "Keys", "Body", "Size"]
    box = page.locator(".table-box")
    assert box.evaluate("e => e.scrollWidth <= e.clientWidth")
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.get_by_role("columnheader", name="Body")).to_be_visible()


@pytest.mark.parametrize("path", ["/groups", "/tail?topic=stock-levels"])
def test_rows_that_come_later_are_cards_too(
    open_page: OpenPage, scenery: Scenery, path: str
) -> None:
    page = open_page(path, width=NARROW)
    expect(page.locator("table[data-cards]").first).to_be_attached()
    if path == "/groups":
        page.get_by_label("Filter by name").fill("bill")
        expect(page.locator("tbody tr")).to_have_count(1)
        row = page.locator("#group-billing")
    else:
        (sent,) = scenery.send("stock-levels", [{"body": "late", "queue": 0}])
        row = page.locator("tbody tr", has_text=f"0:{sent['offset']}")
    expect(row.locator("[data-label]:not([data-label=''])").first).to_be_visible()


@pytest.mark.parametrize("javascript", [True, False])
def test_the_drawer_leads_to_every_section_on_a_phone(
    open_page: OpenPage, javascript: bool
) -> None:
    page = open_page("/", width=NARROW, javascript=javascript)
    drawer = page.get_by_role("navigation", name="Sections")
    expect(drawer).to_be_hidden()
    page.get_by_role("button", name="Menu", exact=True).click()
    expect(drawer.get_by_role("link", name="Dead letters")).to_be_in_viewport()
    drawer.get_by_label("More: Messages").click()
    drawer.get_by_role("link", name="Live tail").click()
    expect(page).to_have_title(re.compile("^Live tail"))
    page.get_by_role("button", name="Menu", exact=True).click()
    expect(drawer.locator("[aria-current=page]")).to_have_text("Live tail")
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()


def test_the_menu_of_sections_has_about_a_dozen_entries_and_leads_everywhere(
    open_page: OpenPage,
) -> None:
    page = open_page("/")
    drawer = page.get_by_role("navigation", name="Sections")
    visible = [link for link in drawer.get_by_role("link").all() if link.is_visible()]
    assert len(visible) <= 13
    hrefs = {link.get_attribute("href") for link in drawer.locator("a").all()}
    sections = {path for path in PAGES if path.count("/") == 1 and "?" not in path}
    assert sections - NOT_IN_THE_MENU <= hrefs


def test_the_menu_of_preferences_has_no_serious_accessibility_fault(open_page: OpenPage) -> None:
    page = open_page("/", theme="dark", width=NARROW)
    page.locator(".menu-button").click()
    expect(page.get_by_label("Time zone")).to_be_visible()
    assert serious_faults(page, "#menu") == []
    page.get_by_label("Row height").select_option("compact")
    expect(page.locator("html")).to_have_attribute("data-density", "compact")


def test_without_script_lists_filter_sort_and_lead_on(open_page: OpenPage) -> None:
    page = open_page("/topics", javascript=False)
    page.get_by_label("Filter by name").fill("orders")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("#topic-list").get_by_role("link", name="Messages", exact=True).click()
    expect(page).to_have_url(re.compile(r"q=orders.*sort=-messages|sort=-messages.*q=orders"))
    page.locator("tbody").get_by_role("link", name="orders", exact=True).click()
    page.get_by_role("navigation", name="Topic").get_by_role("link", name="Messages").click()
    page.locator("tbody tr").first.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="Body")).to_be_visible()


def test_without_script_a_topic_is_made_filled_and_deleted(open_page: OpenPage) -> None:
    page = open_page("/topics", javascript=False)
    page.get_by_role("link", name="Create topic").click()
    page.get_by_label("Name", exact=True).fill("by hand")
    page.get_by_role("button", name="Create topic").click()
    expect(page.locator(".field-error")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("by hand")
    page.get_by_label("Name", exact=True).fill("by-hand")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_text("Created.")).to_be_visible()
    page.locator(".tabs").get_by_role("link", name="Produce").click()
    page.get_by_label("Body").fill("no script")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("1 message stored.")).to_be_visible()
    page.get_by_role("link", name="Delete").click()
    page.get_by_label("Type the name").fill("by-hand")
    page.get_by_role("button", name="Delete topic").click()
    expect(page.get_by_text("Deleted.")).to_be_visible()


def test_bodies_are_shown_as_text_and_never_run(open_page: OpenPage, scenery: Scenery) -> None:
    (script, swap) = scenery.send("orders", [{"body": SCRIPT_BODY}, {"body": HTMX_BODY}])
    page = open_page("/topics/orders/messages")
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail(f"a body ran: {dialog.message}"))
    expect(page.get_by_text(HTMX_BODY).first).to_be_visible()
    for sent, body in ((script, SCRIPT_BODY), (swap, HTMX_BODY)):
        page.goto(f"/messages/orders/{sent['queue']}/{sent['offset']}")
        expect(page.locator("#message-body pre")).to_have_text(body)
        page.get_by_role("link", name="Hex").click()
        expect(page.locator("#message-body table.hex")).to_be_visible()
    assert not [url for url in addresses if url.endswith("/evil")]


def test_filtering_happens_while_typing_and_keeps_the_focus(open_page: OpenPage) -> None:
    page = open_page("/topics")
    box = page.get_by_label("Filter by name")
    box.press_sequentially("ship", delay=30)
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/topics\?q=ship$"))
    expect(box).to_be_focused()
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_refresh_keeps_focus_and_open_details(open_page: OpenPage, scenery: Scenery) -> None:
    page = open_page("/", refresh_s=2)
    page.get_by_text("Show data").click()
    link = page.get_by_role("link", name="All topics")
    link.focus()
    requests = live_requests(page)
    scenery.send("stock-levels", [{"body": "fresh"}])
    wait_for(page, requests, 2)
    page.wait_for_load_state("networkidle")
    expect(link).to_be_focused()
    expect(page.locator("#overview details.twin")).to_have_attribute("open", "")
    expect(page.locator("#plot-traffic .plot-line")).to_have_count(1)


def test_a_refresh_shows_what_is_new(open_page: OpenPage, scenery: Scenery) -> None:
    page = open_page("/topics/stock-levels", refresh_s=2)
    cell = page.locator("#queue-2 td").first
    before = int(cell.inner_text())
    scenery.send("stock-levels", [{"body": "new", "queue": 2}])
    expect(cell).to_have_text(str(before + 1))


def test_nothing_is_polled_when_refresh_is_off_or_the_tab_hidden(open_page: OpenPage) -> None:
    page = open_page("/groups", refresh_s=0)
    requests = live_requests(page)
    page.wait_for_timeout(2500)
    assert requests == []
    page.keyboard.press("r")
    wait_for(page, requests, 1)
    page.locator(".menu-button").click()
    page.locator("#preference-refresh").select_option("2")
    expect(page.locator("#group-list")).to_have_attribute("hx-trigger", re.compile("every 2s"))
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    requests.clear()
    page.wait_for_timeout(2500)
    assert requests == []
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    wait_for(page, requests, 1)


def test_a_server_that_is_gone_is_said_and_the_figures_stay(open_page: OpenPage) -> None:
    page = open_page("/groups")
    page.route("**/groups*", lambda route: route.abort())
    page.keyboard.press("r")
    expect(page.get_by_text("Connection lost.")).to_be_visible()
    expect(page.locator("#group-billing")).to_be_visible()
    page.unroute("**/groups*")
    page.keyboard.press("r")
    expect(page.get_by_text("Connection lost.")).to_be_hidden()


def test_a_topic_is_made_in_a_dialog_with_errors_in_place(open_page: OpenPage) -> None:
    page = open_page("/topics")
    opener = page.get_by_role("link", name="Create topic")
    opener.click()
    dialog = page.locator("#dialog")
    expect(dialog.get_by_label("Name", exact=True)).to_be_focused()
    dialog.get_by_label("Name", exact=True).fill("not valid")
    dialog.get_by_role("button", name="Create topic").click()
    expect(dialog.locator(".field-error")).to_be_visible()
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("not valid")
    expect(page).to_have_url(re.compile(r"/topics$"))
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(opener).to_be_focused()
    opener.click()
    dialog.get_by_label("Name", exact=True).fill("from-dialog")
    dialog.get_by_role("button", name="Create topic").click()
    expect(page).to_have_url(re.compile(r"/topics/from-dialog\?done=created$"))


def test_the_delete_button_wakes_up_at_the_exact_name(
    open_page: OpenPage, scenery: Scenery
) -> None:
    scenery.post("/topics", {"name": "doomed"})
    page = open_page("/topics/doomed")
    opener = page.get_by_role("link", name="Delete")
    opener.click()
    dialog = page.locator("#dialog")
    button = dialog.get_by_role("button", name="Delete topic")
    expect(button).to_be_disabled()
    dialog.get_by_label("Type the name").fill("doome")
    expect(button).to_be_disabled()
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()
    opener.click()
    dialog.get_by_label("Type the name").fill("doomed")
    expect(button).to_be_enabled()
    button.click()
    expect(page).to_have_url(re.compile(r"/topics\?done=deleted$"))


def test_messages_are_sent_in_place_and_the_form_is_kept(open_page: OpenPage) -> None:
    page = open_page("/topics/stock-levels/produce")
    page.get_by_label("Body").fill("again and again")
    page.get_by_label("Copies").fill("500")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".field-error")).to_have_text(re.compile("Copies must be"))
    page.get_by_label("Copies").fill("2")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("2 messages stored.")).to_be_visible()
    expect(page.get_by_label("Body")).to_have_value("again and again")
    page.locator(".sent a").first.click()
    expect(page.locator("#message-body pre")).to_have_text("again and again")


def test_keys_search_go_and_help(open_page: OpenPage) -> None:
    page = open_page("/")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("gt?")
    expect(page.locator("#search")).to_have_value("gt?")
    page.locator("#search").fill("payments")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/topics/payments$"))
    page.wait_for_load_state()  # a key that is pressed before the scripts run is lost
    page.keyboard.press("g")
    page.keyboard.press("g")
    expect(page).to_have_url(re.compile(r"/groups$"))
    page.wait_for_load_state()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page).to_have_url(re.compile(r"/topics$"))


def test_a_time_is_typed_or_taken_from_the_past_or_the_calendar(open_page: OpenPage) -> None:
    page = open_page("/dlq/billing")
    since = page.get_by_label("Dead-lettered from")
    expect(since).not_to_have_attribute("type", "datetime-local")
    page.get_by_role("button", name="yesterday").click()
    expect(since).to_have_value(re.compile(r"^\d{4}-\d\d-\d\dT00:00:00$"))
    page.locator("#dlq-from + [data-calendar]").click()
    native = page.locator("#dlq-from + .when-native")
    native.evaluate("e => { e.value = '2026-01-02T03:04'; e.dispatchEvent(new Event('change')) }")
    expect(since).to_have_value("2026-01-02T03:04")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page).to_have_url(re.compile(r"from=2026-01-02T03%3A04"))


def test_the_first_tab_stop_skips_to_the_content(open_page: OpenPage) -> None:
    page = open_page("/topics")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_ages_keep_counting_between_refreshes(open_page: OpenPage, scenery: Scenery) -> None:
    scenery.send("stock-levels", [{"body": "tick", "queue": 1}])
    page = open_page("/topics/stock-levels")
    age = page.locator("#queue-1 time").last
    expect(age).to_have_text(re.compile(r"^\d+ s ago$"))  # which it says for two minutes
    before = age.inner_text()
    expect(age).not_to_have_text(before)
    expect(age).to_have_text(re.compile(r"^\d+ s ago$"))
    assert int(before.split()[0]) < int(age.inner_text().split()[0])


@pytest.mark.parametrize("path", ["/reports/consumers", "/topics/orders/config"])
def test_where_one_is_shows_in_every_row_of_links_of_a_narrow_window(
    open_page: OpenPage, path: str
) -> None:
    page = open_page(path, width=NARROW)
    link = page.locator(".tabs [aria-current]")
    expect(link).to_be_in_viewport(ratio=0.9)  # its lower border lies on that of the row
