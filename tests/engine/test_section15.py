"""RocketMQ's 25 subtlest behaviours (docs/rocketmq-rules.md), and the tests that hold each.

Below each item stand the tests that would catch a wrong implementation, by file under tests/ and
name without its "test_"; a test here looks whether they exist. Where KiteMQ departs from RocketMQ
on purpose, the item says so.

1. An entry of a queue is 8/4/8; the delay levels' queues hold the time instead of the tag.
    engine/store/test_consume_queue.py an_entry_is_position_size_and_tag_hash_in_8_4_8_bytes
    engine/store/test_consume_queue.py a_delay_levels_queue_holds_the_due_time_instead
2. The CRC is that of the stored body, without its top bit.
    engine/store/test_record.py the_body_crc_is_crc32_without_its_top_bit
3. A record never spans files, 8 bytes are left for the blank one, a batch rolls as a whole.
    engine/store/test_commit_log.py with_7_bytes_to_spare_a_blank_record_closes_the_segment
    engine/store/test_commit_log.py with_8_bytes_to_spare_a_record_fits
    engine/store/test_commit_log.py a_batch_whose_third_element_overflows_rolls_as_a_whole
4. Only a write that succeeds uses up offsets; they have no gap.
    engine/store/test_commit_log.py a_failed_write_uses_up_no_offset
    engine/store/test_commit_log.py producers_taking_turns_get_gapless_offsets_in_log_order
5. What is to be flushed is not seen before its flush; WAIT=false returns before it.
    engine/store/test_flush.py a_flushed_message_is_invisible_until_its_flush
    engine/store/test_flush.py the_wait_property_of_a_producer_says_so
6. Offsets survive the expiry of everything: an emptied queue has min = max = N.
    engine/test_section15.py a_queue_whose_hundred_messages_expired_goes_on_at_100
    engine/retention/test_retention.py offsets_go_on_where_everything_of_a_queue_has_expired
    engine/retention/test_retention_crash.py an_expiry_may_die_at_any_step
7. A start after a crash dispatches again without doubles, and drops a torn tail.
    engine/store/test_recovery.py the_last_20_bytes_torn_off_cost_the_last_message_only
    engine/store/test_recovery.py a_crash_repeats_nothing_and_loses_nothing
    engine/store/test_key_index.py nothing_is_found_twice_after_a_restart
8. A new group that starts at the last offset gets all of a young topic, of an old one what comes.
    engine/delivery/test_start.py a_new_group_on_a_young_topic_gets_all_of_it_as_rocketmqs_does
    engine/delivery/test_start.py a_new_group_on_an_old_topic_pulls_only_what_comes
9. A committed offset can go backwards.
    engine/delivery/test_offsets.py a_committed_offset_can_go_backwards
10. After a reset, commits do not count until a client was told.
    engine/delivery/test_resets.py commits_of_a_pulling_client_are_ignored_until_it_was_told
11. The retry level is 3 + attempts; `>=` the maximum is dead, `>` on a send to the retry topic.
    engine/delivery/test_retry.py three_failures_with_two_retries_wait_10_s_and_30_s_and_end_as_a_dead_letter
    engine/delivery/test_retry.py a_send_to_the_retry_topic_becomes_a_dead_letter_only_above_the_maximum
12. While a group holds a queue's lock, what is sent to its retry topic is a dead letter.
    engine/delivery/test_locks.py while_a_queue_is_locked_what_is_sent_to_the_retry_topic_is_a_dead_letter
13. An orderly puller counts attempts itself, and its queue stands until it goes on.
    engine/delivery/test_locks.py the_broker_counts_no_attempts_of_an_orderly_puller_and_its_queue_stands
14. A lock is leased for 60 s, to be read by for 30 s, and belongs to a client.
    engine/delivery/test_locks.py a_queue_is_one_clients_for_60_s_and_anothers_after
    engine/delivery/test_locks.py a_client_may_read_for_half_of_the_lease
15. Each heartbeat replaces the group's subscription. KiteMQ warns of differences, and filters by
    what each client asks for.
    engine/delivery/test_members.py each_heartbeat_replaces_the_groups_subscription_and_a_difference_is_warned_of
    engine/delivery/test_members.py the_groups_subscription_selects_nothing
16. A parked pull is woken by a matching tag only. It ends at its hold time, not up to 5 s later.
    engine/delivery/test_long_polling.py a_parked_pull_is_woken_by_its_message_only_and_by_no_clock
    app/api/messages/test_parked_pulls.py a_parked_pull_ends_at_its_hold_time
    app/api/messages/test_parked_pulls.py a_message_with_another_tag_leaves_a_pull_parked_and_one_with_its_own_ends_it
17. An empty queue answers 19 at offset 0, and 21 at any other.
    engine/delivery/test_pull.py an_empty_queue_is_waited_at_from_its_beginning_only
18. What comes from a delay level keeps DELAY and REAL_*, what had a time of delivery does not;
    level 99 is the last one.
    engine/test_section15.py a_delay_level_leaves_its_properties_and_a_time_of_delivery_does_not
    engine/schedule/test_delay.py level_99_is_level_18
19. A level beats a time; too far ahead is refused; a recall counts before it is due only. KiteMQ
    keeps times to the millisecond (RocketMQ: a slot of 1 s) up to a year (3 days).
    engine/schedule/test_timer.py a_delay_level_beats_a_time
    engine/schedule/test_timer.py a_time_over_a_year_ahead_is_refused_and_nothing_stored
    engine/schedule/test_timer_deliver.py a_message_arrives_at_its_time_to_the_millisecond
    engine/schedule/test_timers.py recall_knows_what_was_delivered_and_what_never_waited
20. A check delivers the half message as it was sent; 15 checks are the most. KiteMQ takes either
    handle after a check and delivers once (RocketMQ: twice).
    engine/txn/test_check.py a_producer_is_asked_after_6_s_every_30_s_15_times_and_then_it_is_given_up
    engine/txn/test_check.py a_commit_with_the_old_handle_after_a_check_delivers_once
21. Tags are compared by hash and then by text; without a tag nothing matches one.
    engine/delivery/test_filter.py tags_with_one_hash_are_told_apart_by_their_text
22. SQL has three values: what is missing is neither equal nor unequal.
    engine/delivery/test_sql.py an_expression_means_what_the_rules_say
23. Item 0 of the index is none; times are seconds; the newest are found first, 64 at most.
    engine/store/test_key_index.py a_file_is_header_slots_and_items_as_rocketmq_lays_them_out
    engine/store/test_key_index.py equal_hashes_are_both_given_and_told_apart_by_their_text
    engine/store/test_key_index.py a_time_window_counts_whole_seconds
24. The first receive of a group that starts at the end of an old topic gets its last message; a
    FIFO queue stands until what is out is settled. KiteMQ's receipts stay good when their time is
    changed, and it writes dead letters itself.
    engine/delivery/test_start.py the_first_receive_of_a_new_group_on_an_old_topic_gets_the_last_message
    engine/delivery/test_order.py only_the_first_outstanding_message_of_a_group_is_handed_out
    engine/delivery/test_inflight.py an_extended_message_stays_away_longer_and_keeps_its_receipt
25. Of the classic wire protocol alone: its door's tests hold it where that door is built.
"""  # noqa: E501 (names of tests are as long as they are)

import re
from pathlib import Path

import pytest

from engine.broker import PullAnswer, PullStatus
from engine.message import DELAY, REAL_QID, REAL_TOPIC, Message
from tests.engine.conftest import Engine
from tests.engine.retention.parts import HOUR_S, SEGMENT_BYTES, bounds, fill, start

TESTS = Path(__file__).parents[1]
ITEM = re.compile(r"^(\d+)\. ")
PLACE = re.compile(r"^    (\S+\.py) (\w+)$")
WITHOUT_A_TEST = {25}


def table() -> dict[int, list[tuple[str, str]]]:
    """Places by item, as the text above lists them."""
    found: dict[int, list[tuple[str, str]]] = {}
    for line in (__doc__ or "").splitlines():
        if item := ITEM.match(line):
            found[int(item[1])] = []
        elif place := PLACE.match(line):
            found[max(found)].append((place[1], place[2]))
    return found


def test_every_item_is_listed_with_a_test_that_exists() -> None:
    items = table()
    assert sorted(items) == list(range(1, 26))
    assert {item for item, places in items.items() if not places} == WITHOUT_A_TEST


@pytest.mark.parametrize(("file", "name"), sorted({p for each in table().values() for p in each}))
def test_a_listed_test_exists(file: str, name: str) -> None:
    defined = re.findall(r"^(?:async )?def test_(\w+)\(", (TESTS / file).read_text(), re.MULTILINE)
    assert name in defined


def test_a_queue_whose_hundred_messages_expired_goes_on_at_100(engine: Engine) -> None:
    """Item 6, with a group that had read ten."""
    broker = start(engine, retention_h=1)
    for number in range(100):
        broker.send([Message("orders", b"%d" % number, queue=0)])
    broker.commit_offset("g", "orders", 0, 10)
    fill(engine, 5, topic="other")
    engine.tick(2 * HOUR_S)
    assert bounds(broker) == (100, 100)
    pulled = broker.pull("orders", 0, 10, group="g")
    assert (pulled.status, pulled.answer) == (
        PullStatus.OFFSET_TOO_SMALL,
        PullAnswer.OFFSET_MOVED,
    )
    assert pulled.next_offset == 100
    broker = engine.crash(segment_bytes=SEGMENT_BYTES, queue_file_entries=7, index_items=40)
    assert bounds(broker) == (100, 100)
    assert broker.send([Message("orders", b"next", queue=0)]).offsets == [100]


def test_a_delay_level_leaves_its_properties_and_a_time_of_delivery_does_not(
    engine: Engine,
) -> None:
    """Item 18."""
    broker = engine.start()
    due_ms = engine.clock.now_ms() + 1000
    broker.send([Message("orders", b"level", queue=0, delay_level=1)])
    broker.send([Message("orders", b"time", queue=0, deliver_at_ms=due_ms)])
    engine.tick(1.0)
    found = {message.body: message for message in broker.pull("orders", 0, 0).messages}
    level, time = found[b"level"].properties, found[b"time"].properties
    assert (level[DELAY], level[REAL_TOPIC], level[REAL_QID]) == ("1", "orders", "0")
    assert not {REAL_TOPIC, REAL_QID} & time.keys()
