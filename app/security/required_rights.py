"""The rights that each endpoint needs, as tables for people and programs.

`access.py` says who has a right; these tables say where it is needed: by each operation of the REST
API, each frame of the WebSocket, each command, each change and each export of the console. A word
in braces names the resource: from the path, from the body, or found by an id. Rights joined by "+"
are all needed. Tests compare the tables with the endpoints, both ways, and try each cell.
`python -m app.security.required_rights` prints them for docs/access.md.
"""

import sys
from collections.abc import Mapping

PUBLIC = "read:public"
# Copying messages to another topic lets its consumers read them.
COPY = "administer:topic:{source} + produce:topic:{to} + read_messages:topic:{source}"
COPY_DEAD = "administer:group:{group} + produce:topic:{to} + read_messages:group:{group}"

# Operations of the REST interface by their id; a CALL over the WebSocket is one of these.
API: Mapping[str, str] = {
    PUBLIC: "healthz readyz",
    "read:topic:{topic}": "get_topic get_note get_topic_statistics",
    "read:topic:{topic} + read_messages:topic:{topic}": "pull find_by_key get_message search_topic",
    "read:group:{group}": "get_group get_lag get_offsets preview_reset preview_undo list_resets "
    "list_members get_assignment list_locks count_dead_letters list_dead_letters get_dead_letter "
    "list_dismissals get_callback get_group_statistics get_lag_history",
    "read:server": "find_by_id get_journey trace_status list_topics list_groups search_anything "
    "list_replays list_replay_history get_replay list_outcomes get_retention list_scheduled "
    "count_requests list_transactions list_callbacks get_transaction get_statistics "
    "get_alerts list_alert_rules get_alert_rule list_alert_deliveries about metrics "
    "get_reports list_report_schedules list_report_runs get_report_run list_report_tables "
    "list_report_rows get_report_totals download_report_csv download_report_parquet "
    "get_report_latency list_self_checks get_read_only list_loggers",
    "read:server + read_messages:topic:DefaultCluster_REPLY_TOPIC": "get_reply",
    "read:audit": "list_audit",
    "read:own": "get_me list_tokens list_sessions list_views list_stars",
    "read:control": "get_support_bundle",
    "administer:control": "set_read_only set_log_level",
    "read:people": "list_users get_user check_access",
    "produce:topic:{topic}": "produce request commit_transaction roll_back_transaction "
    "leave_transaction",
    "produce:topic:DefaultCluster_REPLY_TOPIC": "reply",
    "produce:group:{group}": "poll_checks",
    "consume:group:{group}": "ack nack extend release commit_offset heartbeat leave lock_queues "
    "unlock_queues",
    "consume:group:{group} + consume:topic:{topic}": "receive",
    "administer:topic:{topic}": "create_topic change_topic delete_topic import_topics purge_topic "
    "write_note resume_transaction",
    "administer:topic:*": "recall_message deliver_message reschedule_message",
    "administer:group:{group}": "create_group change_group pause_group resume_group delete_group "
    "reset_offsets undo_reset redrive_dead_letters dismiss_dead_letters restore_dead_letters "
    "delete_callback verify_message",
    "administer:group:{group} + read_messages:group:{group}": "set_callback",
    COPY: "create_replay change_replay begin_replay "
    "pause_replay resume_replay stop_replay retry_replay",
    "administer:server": "create_alert_rule change_alert_rule delete_alert_rule create_silence "
    "acknowledge_alert end_silence test_alerts change_report_schedule ask_stack disconnect_client",
    "administer:report": "run_report cancel_report_run",
    "administer:people": "create_user change_user delete_user",
    "administer:own": "change_my_password create_token revoke_token end_session create_view "
    "delete_view star_topic unstar_topic",
}

# Frames of a client. HELLO, CREDIT and ending one's own subscriptions need only a connection.
FRAMES: Mapping[str, str] = {
    "read:own": "HELLO CREDIT UNSUBSCRIBE CHECKS_UNWANTED",
    "produce:topic:{topic}": "SEND DECIDE",
    "produce:group:{group}": "CHECKS_WANTED",
    "consume:group:{group}": "ACK NACK EXTEND RELEASE",
    "consume:group:{group} + consume:topic:{topic}": "SUBSCRIBE",
    "that of the operation": "CALL",
}

# What the console changes: POST to these addresses.
CONSOLE: Mapping[str, str] = {
    PUBLIC: "/login",
    "read:own": "/preferences /settings",
    "read:group:{group}": "/groups/{group}/offsets/plan",
    "produce:topic:{topic}": "/topics/{topic}/produce",
    "administer:topic:{topic}": "/topics /topics/{topic}/config /topics/{topic}/delete "
    "/topics/{topic}/purge /bulk/topics /import/topics "
    "/topics/{topic}/docs /transactions/{id}",
    "administer:topic:*": "/scheduled/{id}",
    "administer:group:{group}": "/groups/{group}/config /groups/{group}/pause "
    "/groups/{group}/resume /groups/{group}/delete /groups/{group}/leave /groups/{group}/offsets "
    "/groups/{group}/resets/{id}/undo /dlq/{group}/dismiss /dlq/{group}/restore "
    "/bulk/groups /messages/{topic}/{queue}/{offset}/verify",
    COPY_DEAD: "/dlq/{group}/resend /dlq/{group}/{offset}/resend",
    COPY: "/jobs /jobs/{id}/rate /jobs/{id}/begin "
    "/jobs/{id}/pause /jobs/{id}/resume /jobs/{id}/stop /jobs/{id}/retry",
    "administer:server": "/alerts/new /alerts/rules/{id} /alerts/rules/{id}/delete "
    "/alerts/silences /alerts/silences/{id}/end /alerts/acknowledge /alerts/test "
    "/client/stack /client/disconnect "
    "/reports/schedules/{job}",
    "administer:report": "/reports/runs /reports/runs/{id}/cancel",
    "administer:control": "/engine/control/read-only /engine/control/log-level",
    "administer:people": "/access/users /access/users/{name} /access/users/{name}/password "
    "/access/users/{name}/delete",
    "administer:own": "/logout /access/tokens /access/tokens/{id}/revoke "
    "/access/sessions/{id}/end /access/password /views /views/{id}/delete /topics/{topic}/star",
}

# Files and streams of the console: GET of these addresses.
EXPORTS: Mapping[str, str] = {
    "read:server": "/tail/stream /jobs/{id}/export",
    "read:server + read_messages:topic:{topic}": "/messages/export",
    "read:topic:{topic} + read_messages:topic:{topic}": "/messages/{topic}/{queue}/{offset}/raw",
    "read:group:{group} + read_messages:group:{group}": "/dlq/{group}/export "
    "/dlq/{group}/{offset}/raw",
    "read:audit": "/audit/export",
}

# Commands that call a server. They use the endpoints above, with the same rights.
COMMANDS: Mapping[str, str] = {
    "read:server": "topics-list topics-export groups-list trace stats retention scheduled-list "
    "replay-list replay-show replay-outcomes report-list report-show report-schedules "
    "server-checks",
    "read:control": "server-bundle",
    "administer:control": "server-freeze server-thaw",
    "administer:report": "report-run report-cancel",
    "administer:server": "report-schedule",
    "read:topic:{topic} + read_messages:topic:{topic}": "tail search",
    "read:topic:{topic}": "topics-show stats-topic",
    "read:group:{group}": "groups-show groups-lag groups-members groups-locks groups-resets "
    "dead-list dead-show dead-count dead-dismissals stats-group stats-lag",
    "produce:topic:{topic}": "produce",
    "administer:topic:{topic} + administer:group:{topic} + produce:topic:{topic} + "
    "consume:group:{topic} + consume:topic:{topic}": "bench",
    "consume:group:{group} + consume:topic:{topic}": "consume",
    "administer:topic:{topic}": "topics-create topics-change topics-delete topics-import "
    "topics-purge",
    "administer:topic:*": "scheduled-recall scheduled-deliver scheduled-reschedule",
    "administer:group:{group}": "groups-create groups-change groups-delete groups-pause "
    "groups-resume groups-reset groups-undo dead-redrive dead-dismiss dead-restore",
    COPY: "replay-start replay-begin replay-pause "
    "replay-resume replay-stop replay-retry replay-rate",
}

TABLES: Mapping[str, Mapping[str, str]] = {
    "REST operations": API,
    "WebSocket frames": FRAMES,
    "changes in the console": CONSOLE,
    "exports of the console": EXPORTS,
    "commands": COMMANDS,
}


def rights_by_endpoint(table: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """All rights that each endpoint of a table needs."""
    table_rights: dict[str, tuple[str, ...]] = {}
    for rights, endpoints in table.items():
        for endpoint in endpoints.split():
            assert endpoint not in table_rights, f"{endpoint} stands in two rows"
            table_rights[endpoint] = tuple(rights.split(" + "))
    return table_rights


def markdown() -> str:
    """The tables, for docs/access.md."""
    parts = []
    for title, table in TABLES.items():
        rows = [
            f"| {_rights(rights)} | {_endpoints(endpoints)} |"
            for rights, endpoints in table.items()
        ]
        parts.append("\n".join([f"| right | {title} |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _rights(text: str) -> str:
    return " and ".join(f"`{part}`" if ":" in part else part for part in text.split(" + "))


def _endpoints(text: str) -> str:
    # A dash stands for the blank between the words of a command; addresses have none.
    return ", ".join(f"`{endpoint.replace('-', ' ')}`" for endpoint in text.split())


if __name__ == "__main__":
    sys.stdout.write(markdown())
