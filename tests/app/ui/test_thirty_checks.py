"""The thirty checks that the console is judged by: where each is held.

Below each check stand the tests that would catch a console that fails it, by file under tests/ and
name without its "test_"; a test here looks whether they exist. Where the machine of a test decides
how long something takes, the test counts work instead of time.

1. Visiting all pages breaks the content policy nowhere and asks no other host.
    app/ui/test_browser.py no_page_breaks_the_content_policy_or_asks_another_host
    app/ui/framework/test_vendor.py templates_hold_no_inline_script_or_style_and_no_foreign_host
2. Without script every page answers with its table; filter, sort, pages, tabs and searches work.
    app/ui/test_pages.py every_page_answers_when_typed
    app/ui/test_browser.py without_script_lists_filter_sort_and_lead_on
    app/ui/messages/test_messages.py without_script_a_search_is_made_and_continued
    app/ui/dead_letters/test_dead_letters.py dead_letters_are_found_by_each_condition
    app/ui/journeys/test_journey.py without_script_a_journey_is_found_and_read
    app/ui/test_thirty_checks.py without_script_tabs_pages_and_dead_letters_are_reached
3. An address copied after filter, sort and page shows the same rows in a new browser.
    app/ui/test_thirty_checks.py a_copied_address_shows_the_same_rows_in_another_browser
    app/ui/messages/test_messages.py the_address_of_a_page_is_a_permalink
4. Back restores filter and place; history restoration gets a full page.
    app/ui/test_thirty_checks.py back_brings_the_filter_and_the_place_in_the_list
    app/ui/test_pages.py going_back_in_history_gets_the_whole_page
5. The list of 10,000 topics is bounded in rows and in the time that it takes from others.
    app/ui/test_large_scene.py a_page_has_at_most_two_hundred_rows
    app/ui/test_large_scene.py every_few_names_others_may_run
    app/ui/test_large_scene.py typing_a_filter_finds_one_topic_of_ten_thousand
    app/ui/messages/test_messages.py no_page_has_more_rows_than_two_hundred
    app/ui/framework/test_tables.py a_page_says_which_rows_it_shows
    app/ui/test_browser.py filtering_happens_while_typing_and_keeps_the_focus
6. Ordinary topics only at first, the others by facets, which count what the API counts.
    app/ui/test_large_scene.py facets_count_what_the_api_counts
    app/ui/test_pages.py system_topics_are_hidden_until_asked_for
    app/ui/test_pages.py figures_are_the_ones_that_the_api_gives
7. A wrong topic is refused at its field with the values kept; a right one is made and audited.
    app/ui/test_pages.py a_wrong_topic_is_refused_at_its_field_with_the_values_kept
    app/ui/test_browser.py a_topic_is_made_in_a_dialog_with_errors_in_place
    app/ui/test_pages.py creating_a_topic_leads_to_its_page_and_into_the_audit_trail
8. Deleting asks for the name, tells what is lost, and Escape leads back to where it was opened.
    app/ui/test_browser.py the_delete_button_wakes_up_at_the_exact_name
    app/ui/test_pages.py what_deleting_would_lose_is_told_in_numbers
    app/ui/test_pages.py deleting_a_topic_needs_its_name_typed
9. Without the right controls are there, disabled, and name it; the direct POST is refused.
    app/ui/test_rights.py each_control_is_as_the_table_says_and_so_is_its_post
    app/ui/test_rights.py every_change_is_on_a_page
    app/ui/access/test_access.py without_the_right_controls_are_there_disabled_and_name_it
    app/ui/access/test_access.py a_viewers_direct_post_is_refused_and_names_the_right
10. When the login expired the whole window logs in and comes back to the same address.
    app/ui/access/test_access.py after_the_login_expired_the_whole_window_logs_in_and_comes_back
    app/ui/access/test_access.py htmx_is_told_to_log_in_with_the_whole_window
    app/ui/access/test_login_expiry.py a_page_left_alone_is_logged_out_though_it_refreshes_itself_and_comes_back
    app/ui/access/test_provider_login.py through_the_providers_pages_one_comes_to_the_page_one_wanted
11. An unknown lag says so with its reason, sorts last either way, and is no number in a sum.
    app/ui/groups/test_groups.py a_group_that_has_not_begun_is_unknown_and_last_either_way
    app/ui/test_large_scene.py an_unknown_lag_is_last_either_way_and_told_in_the_total
    app/ui/framework/test_tables.py unknown_values_sort_last_in_either_direction
    app/ui/groups/test_groups.py the_chart_has_gaps_where_nothing_was_sampled
    app/ui/groups/test_group_bulk.py the_list_says_of_how_many_groups_the_lag_is_unknown
12. A group's lag is told in messages and in time, with when it clears, as the API tells it.
    app/ui/groups/test_groups.py a_group_page_tells_lag_its_age_and_when_it_clears
    app/ui/groups/test_groups.py a_group_that_does_not_consume_is_not_shrinking
13. Members that subscribe differently are told on the list and marked in the matrix.
    app/ui/groups/test_groups_browser.py a_conflict_is_seen_from_the_list_to_the_cell
    app/ui/groups/test_groups.py members_that_differ_are_told_on_the_list_and_marked_in_the_matrix
14. A reset shows now, new and difference of each queue, and changes nothing before it is applied.
    app/ui/groups/test_group_changes.py a_preview_shows_every_queue_and_changes_nothing
15. A group that went on since the preview is refused, with a fresh one that marks what moved.
    app/ui/groups/test_group_changes.py a_reset_that_the_group_overtook_is_refused_with_a_fresh_preview
    app/ui/groups/test_groups_browser.py a_reset_that_was_overtaken_marks_what_moved_and_can_be_applied_again
16. A reset is undone; both are audited.
    app/ui/groups/test_group_changes.py a_reset_and_its_undo_restore_the_offsets_and_are_audited
    app/ui/groups/test_groups_browser.py a_group_is_moved_and_moved_back
17. A search that stops early says how far it came; continued to its end it finds each match once.
    app/ui/messages/test_messages.py a_search_continued_to_its_end_finds_each_match_once
    app/ui/messages/test_messages.py a_search_whose_time_is_up_says_how_far_it_came_and_goes_on
18. Bodies with script or htmx attributes are text.
    app/ui/test_browser.py bodies_are_shown_as_text_and_never_run
    app/ui/messages/test_tail.py bodies_in_the_tail_are_text
19. Decoders show what was sent; what none can read lists why; a large body comes on demand.
    app/ui/messages/test_messages.py bodies_of_many_kinds_are_shown_as_trees
    app/ui/messages/test_messages.py a_broken_avro_body_lists_each_decoder_and_why_it_failed
    app/ui/messages/test_messages.py a_large_body_is_shown_only_on_demand
    app/ui/bodies/test_bodies.py protobuf_is_read_by_field_number_and_wire_type
    app/ui/bodies/test_bodies.py bytes_that_are_no_text_are_shown_in_hex_with_the_byte_at_fault
20. A place and an id lead to the same message; a purged one is gone, and since when.
    app/ui/messages/test_messages.py a_place_and_an_id_lead_to_the_same_message_and_a_purged_one_is_gone
    app/ui/messages/test_messages.py the_id_of_a_message_that_retention_took_is_gone
21. Five thousand messages tail within the cap; pause, resume and reconnect lose and repeat none.
    app/ui/messages/test_tail.py five_thousand_messages_arrive_within_the_cap_and_input_stays_quick
    app/ui/messages/test_tail.py pause_freezes_and_counts_and_resume_goes_on
    app/ui/messages/test_tail.py a_broken_connection_is_taken_up_where_it_ended
    app/ui/messages/test_tail.py a_reconnect_goes_on_without_gap_or_repeat
22. Seven tabs load, one of them a tail.
    app/ui/messages/test_tail.py seven_tabs_load_while_one_of_them_follows
23. A failing message's journey has a bar for each attempt, and a table with the same numbers.
    app/ui/journeys/test_journey.py the_waterfall_has_a_bar_for_each_attempt_and_the_table_the_same_figures
    app/ui/journeys/test_journey.py the_twin_tells_each_stage_in_order_with_its_bar
    app/ui/journeys/test_journey_words.py what_failed_has_the_failures_colour_and_a_mark
24. An unknown id lists the reasons that were checked, with their values.
    app/ui/journeys/test_journey.py an_unknown_id_shows_the_reasons_with_their_values
    app/ui/journeys/test_journey.py a_topic_that_is_not_traced_says_so
25. Dead letters are found by time, id, key and reason; facets sum to the overview's count.
    app/ui/replays/test_replay_browser.py dead_letters_are_found_by_time_id_key_and_reason
    app/ui/dead_letters/test_dismiss.py ticked_dead_letters_rest_with_a_note_and_are_restored
26. A dry run says what cannot be sent; the run names it, adds up, marks the entries, links copies.
    app/ui/replays/test_replay_browser.py a_dry_run_says_what_cannot_be_sent_and_the_run_names_it
    app/ui/dead_letters/test_dismiss.py what_failed_is_tried_again_and_both_jobs_say_so
27. A job killed among 20,000 entries goes on: one outcome each, no second copy, marks on entries.
    app/ui/replays/test_replay_restart.py a_job_killed_at_random_moments_sends_each_entry_once
    app/ui/replays/test_replay_browser.py what_comes_back_says_how_often_it_was_sent_again
    engine/replay/test_restart.py a_kill_at_every_single_write_sends_each_once
28. Exports are whole, say where they are cut, and run no formula.
    app/ui/replays/test_replay_browser.py exports_are_downloaded_whole
    app/ui/dead_letters/test_dead_letters.py a_workbook_opens_and_has_a_row_for_each
    app/ui/dead_letters/test_dead_letters.py a_workbook_that_is_cut_says_so
    app/ui/dead_letters/test_dead_letters.py csv_keeps_what_was_said_and_runs_nothing
    app/ui/dead_letters/test_dead_letters.py ndjson_has_a_line_for_each_that_matches
    app/ui/messages/test_messages.py an_export_holds_every_match_and_says_that_it_is_whole
29. All is reached by keyboard with the focus to be seen; no serious fault for assistive techniques.
    app/ui/test_thirty_checks.py tab_reaches_every_control_and_the_focus_is_seen
    app/ui/test_browser.py the_first_tab_stop_skips_to_the_content
    app/ui/test_browser.py keys_search_go_and_help
    app/ui/navigation/test_palette_browser.py ctrl_k_type_enter_opens_a_topic
    app/ui/test_browser.py no_page_has_a_serious_accessibility_fault
    app/ui/test_browser.py dialogs_have_no_serious_accessibility_fault
30. Colours are right at once, the zone labels all times, a refresh keeps what a person is at.
    app/ui/test_browser.py the_first_paint_has_the_chosen_colours
    app/ui/framework/test_comforts.py changing_the_zone_labels_all_times_and_the_chart_anew
    app/ui/test_browser.py a_refresh_keeps_focus_and_open_details
    app/ui/replays/test_replay_browser.py shift_ticks_a_range_and_a_refresh_keeps_the_ticks
    app/ui/test_pages.py an_unchanged_fragment_is_not_sent_again
    app/ui/test_browser.py nothing_is_polled_when_refresh_is_off_or_the_tab_hidden
"""  # noqa: E501 (names of tests are as long as they are)

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.dead_letters.dead_scene import dying_group, kill, one_queue
from tests.app.ui.scenery import Scenery

TESTS = Path(__file__).parents[2]
CHECK = re.compile(r"^(\d+)\. ")
PLACE = re.compile(r"^    (\S+\.py) (\w+)$")
MANY = 30  # more than a short page holds
TABS_MAX = 150
DATE_STOPS_MAX = 20  # a field for a date has several stops
# What can be reached now: neither hidden, nor disabled, nor inside closed details. Of radio
# buttons with one name Tab reaches one.
MARK = """() => {
  const all = document.querySelectorAll(
    "a[href], button, input, select, textarea, summary, [tabindex]");
  const names = new Set();
  let count = 0;
  for (const each of all) {
    if (each.disabled || each.tabIndex < 0) continue;
    if (!each.checkVisibility({visibilityProperty: true})) continue;
    if (each.type === "radio") {
      if (names.has(each.name)) continue;
      names.add(each.name);
    }
    each.dataset.stop = String(count++);
  }
  return count;
}"""
FOCUSED = """() => {
  const at = document.activeElement;
  const style = getComputedStyle(at);
  const isSeen = style.outlineStyle !== "none" || style.boxShadow !== "none";
  const radio = at.type === "radio"
    ? document.querySelector(`input[type=radio][name="${at.name}"][data-stop]`) : null;
  return [(radio ?? at).dataset.stop ?? "", isSeen, at.outerHTML.slice(0, 160)];
}"""


def table() -> dict[int, list[tuple[str, str]]]:
    """Places by check, as the text above lists them."""
    places: dict[int, list[tuple[str, str]]] = {}
    for line in (__doc__ or "").splitlines():
        if check := CHECK.match(line):
            places[int(check[1])] = []
        elif place := PLACE.match(line):
            places[max(places)].append((place[1], place[2]))
    return places


def test_every_check_is_listed_with_a_test() -> None:
    checks = table()
    assert sorted(checks) == list(range(1, 31))
    assert all(checks.values())


@pytest.mark.parametrize(("file", "name"), sorted({p for each in table().values() for p in each}))
def test_a_listed_test_exists(file: str, name: str) -> None:
    defined = re.findall(r"^(?:async )?def test_(\w+)\(", (TESTS / file).read_text(), re.MULTILINE)
    assert name in defined


@pytest.fixture(scope="module")
def many(site: Site) -> str:
    """The beginning of the names of more topics than a short page holds."""
    scenery = Scenery(site.base)
    for number in range(MANY):
        scenery.post("/topics", {"name": f"deep-{number:02d}"})
    scenery.close()
    return "deep-"


def names(page: Page) -> list[str]:
    """The topics in the list, from top to bottom."""
    return page.locator("#topic-list tbody th").all_inner_texts()


@pytest.mark.browser
def test_a_copied_address_shows_the_same_rows_in_another_browser(
    open_page: OpenPage, many: str
) -> None:
    page = open_page("/topics?size=25")
    page.get_by_role("searchbox", name="Filter by name").fill(many)
    expect(page).to_have_url(re.compile(f"q={many}"))
    page.locator("#topic-list thead").get_by_role("link", name="Topic").click()
    expect(page).to_have_url(re.compile("sort="))
    page.get_by_role("link", name="Next").click()
    expect(page).to_have_url(re.compile("page=2"))
    expect(page.locator("#topic-list tbody tr")).to_have_count(MANY - 25)
    listing = names(page)
    assert len(set(listing)) == MANY - 25
    other = open_page(page.url)
    expect(other.locator("#topic-list tbody tr")).to_have_count(MANY - 25)
    assert names(other) == listing
    expect(other.get_by_role("searchbox", name="Filter by name")).to_have_value(many)


@pytest.mark.browser
def test_back_brings_the_filter_and_the_place_in_the_list(open_page: OpenPage, many: str) -> None:
    page = open_page("/topics")
    page.get_by_role("searchbox", name="Filter by name").fill(many)
    rows = page.locator("#topic-list tbody tr")
    expect(rows).to_have_count(MANY)
    last = page.locator("#topic-list").get_by_role("link", name=f"{many}{MANY - 1}")
    expect(last).not_to_be_in_viewport()
    last.click()
    expect(page).to_have_url(re.compile(f"/topics/{many}{MANY - 1}"))
    page.go_back()
    expect(page.get_by_role("searchbox", name="Filter by name")).to_have_value(many)
    expect(rows).to_have_count(MANY)
    expect(last).to_be_in_viewport()


@pytest.mark.browser
def test_without_script_tabs_pages_and_dead_letters_are_reached(
    open_page: OpenPage, scenery: Scenery, many: str
) -> None:
    one_queue(scenery, "paper")
    dying_group(scenery, "printers")
    kill(
        scenery, "printers", "paper", [{"body": f"sheet {n}", "keys": [f"p-{n}"]} for n in range(3)]
    )
    page = open_page(f"/topics?q={many}&size=25", javascript=False)
    page.get_by_role("link", name="Next").click()
    expect(page.locator("#topic-list tbody tr")).to_have_count(MANY - 25)
    page.goto("/groups/warehouse")
    page.get_by_role("link", name="Subscriptions").click()
    expect(page).to_have_url(re.compile("/groups/warehouse/subscriptions"))
    page.goto("/dlq/printers")
    page.get_by_label("Key", exact=True).fill("p-1")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("table.letters tbody tr")).to_have_count(1)
    expect(page.locator("#letter-1")).to_be_visible()


@pytest.mark.browser
@pytest.mark.parametrize("path", ["/topics/orders", "/dlq/billing", "/create/job", "/settings"])
def test_tab_reaches_every_control_and_the_focus_is_seen(open_page: OpenPage, path: str) -> None:
    page = open_page(path)
    count = page.evaluate(MARK)
    assert 10 < count <= TABS_MAX
    reached: set[str] = set()
    for _ in range(count + DATE_STOPS_MAX):
        page.keyboard.press("Tab")
        stop, is_seen, html = page.evaluate(FOCUSED)
        assert is_seen or not stop, html
        reached.add(stop)
    assert reached >= {str(number) for number in range(count)}
