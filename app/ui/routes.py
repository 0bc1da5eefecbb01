"""Every address of the console, with the right that it needs.

If a form names the topic or the group, or the path has only an id, the handler checks again with
`require` of app/security/access.py.
"""

from fastapi import APIRouter
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from app.capabilities import require
from app.security.access import (
    ADMINISTER_CONTROL,
    ADMINISTER_PEOPLE,
    ADMINISTER_SERVER,
    OWN,
    PUBLIC,
    READ_GROUP,
    READ_PEOPLE,
    READ_SERVER,
    READ_TOPIC,
    Needs,
)
from app.ui.access import access, login, provider_login
from app.ui.access import check as access_check
from app.ui.access import user as access_user
from app.ui.alerts import alerts
from app.ui.alerts import receivers as alert_receivers
from app.ui.alerts import rules as alert_rules
from app.ui.audit import audit
from app.ui.clients import client, clients
from app.ui.dead_letters import dead_letter, dead_letters, dismiss, resend
from app.ui.dead_letters import exports as dead_exports
from app.ui.engine import brokers, control, engine, leader
from app.ui.framework import preferences
from app.ui.framework.failures import Handler, page, unknown_page
from app.ui.framework.page_request import PageRequest
from app.ui.framework.rights import (
    ADMINISTER_REPORT,
    ANY_GROUP,
    ANY_PRODUCE,
    ANY_TOPIC,
    EVERY_TOPIC,
    GROUP,
    PRODUCE,
    READ_AUDIT,
    READ_OWN,
    TOPIC,
)
from app.ui.groups import bulk as group_bulk
from app.ui.groups import group, groups
from app.ui.groups import history as group_history
from app.ui.groups import members as group_members
from app.ui.groups import offsets as group_offsets
from app.ui.groups import retries as group_retries
from app.ui.groups import settings as group_settings
from app.ui.help import components, help
from app.ui.home import overview, start
from app.ui.journeys import journey
from app.ui.journeys import search as trace
from app.ui.messages import (
    compare,
    message,
    message_file,
    messages,
    publish,
    saved_templates,
    tail,
    verify,
)
from app.ui.messages import export as message_export
from app.ui.navigation import palette, search, views
from app.ui.replays import export as job_export
from app.ui.replays import form as replay_form
from app.ui.replays import history as job_history
from app.ui.replays import jobs
from app.ui.reports import report, reports
from app.ui.reports import schedule as report_schedule
from app.ui.scheduled import scheduled
from app.ui.settings import browser_settings
from app.ui.topics import bulk as topic_bulk
from app.ui.topics import docs as topic_docs
from app.ui.topics import imports as topic_import
from app.ui.topics import messages as topic_messages
from app.ui.topics import purge, starred, topic, topics
from app.ui.transactions import transactions


async def static(request: PageRequest) -> Response:
    """GET /static/{name}"""
    return request.console.assets.respond(request)


class UnknownPage(Route):
    """Any address that a person typed and that is no page; programs get the API's own answer."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["path"].startswith("/api/"):
            return Match.NONE, {}
        if "text/html" not in Headers(scope=scope).get("accept", ""):
            return Match.NONE, {}
        return super().matches(scope)


# What the engine has to be able to do for the pages of a module; else a page says why it is absent.
CAPABILITIES = {
    module.__name__: capability
    for capability, modules in {
        "brokers": (brokers,),
        "content_search": (message_export,),
        "dead_letter_replays": (jobs, job_export, job_history, replay_form, resend),
        "dismissals": (dismiss,),
        "journeys": (journey, trace),
        "log_figures": (engine,),
        "offset_resets": (group_offsets,),
        "purges": (purge,),
        "reports": (report, reports, report_schedule),
        "reset_history": (group_history,),
        "scheduled_list": (scheduled,),
        "transaction_queries": (transactions,),
    }.items()
    for module in modules
}


class PageRoute(Route):
    """An address of the console, whose handler is only reached with the right that it needs."""

    def __init__(self, method: str, path: str, handler: Handler, needs: Needs) -> None:
        self.needs = needs

        async def checked(request: PageRequest) -> Response:
            needs.check(request.scope)
            if capability := CAPABILITIES.get(handler.__module__):
                require(request.console.messaging.capabilities, capability)
            return await handler(request)

        super().__init__(path, page(checked), methods=[method], name=handler.__name__)


def _get(path: str, handler: Handler, needs: Needs | None = None) -> Route:
    """A page; by default it needs the right to read the object in the path."""
    kind = READ_TOPIC if "{topic}" in path else READ_GROUP if "{group}" in path else READ_SERVER
    return PageRoute("GET", path, handler, needs or kind)


def _post(path: str, handler: Handler, needs: Needs) -> Route:
    return PageRoute("POST", path, handler, needs)


def _form(
    path: str, show: Handler, change: Handler, needs: Needs, look: Needs | None = None
) -> tuple[Route, Route]:
    """A page with a form, and the change that it posts; `look` is the right of the page."""
    return _get(path, show, look), _post(path, change, needs)


router = APIRouter(
    routes=[
        _get("/", overview.show),
        *_form("/topics", topics.show, topics.create, ANY_TOPIC),
        _get("/create/topic", topics.new),
        _get("/topics/{topic}", topic.show),
        _get("/topics/{topic}/messages", topic_messages.show),
        _get("/topics/{topic}/groups", topic.groups),
        _get("/produce", publish.go),
        *_form("/topics/{topic}/produce", publish.show, publish.send, PRODUCE),
        *_form("/topics/{topic}/produce/file", message_file.show, message_file.change, PRODUCE),
        _get("/topics/{topic}/produce/file/{run}", message_file.result),
        _post("/topics/{topic}/produce/templates", publish.save_template, OWN),
        _post("/topics/{topic}/produce/templates/{id}/delete", saved_templates.delete, OWN),
        *_form("/topics/{topic}/config", topic.config_page, topic.change, TOPIC),
        *_form("/topics/{topic}/purge", purge.show, purge.purge, TOPIC),
        *_form("/topics/{topic}/docs", topic_docs.show, topic_docs.change, TOPIC),
        _post("/topics/{topic}/star", starred.change, OWN),
        *_form("/topics/{topic}/delete", topic.delete_page, topic.delete, TOPIC),
        *_form("/import/topics", topic_import.show, topic_import.change, ANY_TOPIC),
        *_form("/bulk/topics", topic_bulk.show, topic_bulk.apply, ANY_TOPIC),
        _get("/messages", messages.show),
        _get("/messages/export", message_export.show),
        _get("/tail", tail.show),
        _get("/tail/stream", tail.stream),
        _get("/messages/{topic}/{queue}/{offset}", message.show),
        _get("/messages/{topic}/{queue}/{offset}/raw", message.download),
        _get("/messages/{topic}/{queue}/{offset}/compare", compare.show),
        *_form("/messages/{topic}/{queue}/{offset}/verify", verify.show, verify.verify, ANY_GROUP),
        _get("/m/{id}", message.by_id),
        _get("/groups", groups.show),
        _get("/bulk/groups", group_bulk.show),
        _post("/bulk/groups", group_bulk.apply, ANY_GROUP),
        _get("/groups/{group}", group.show),
        _get("/groups/{group}/clients", group_members.clients),
        _get("/groups/{group}/leave", group_members.leave_page),
        _post("/groups/{group}/leave", group_members.leave, GROUP),
        _get("/groups/{group}/subscriptions", group_members.subscriptions),
        _get("/groups/{group}/retries", group_retries.show),
        _get("/groups/{group}/config", group_settings.show),
        _post("/groups/{group}/config", group_settings.change, GROUP),
        _get("/groups/{group}/pause", group_settings.pause_page),
        _post("/groups/{group}/pause", group_settings.pause, GROUP),
        _get("/groups/{group}/resume", group_settings.resume_page),
        _post("/groups/{group}/resume", group_settings.resume, GROUP),
        _get("/groups/{group}/delete", group_settings.delete_page),
        _post("/groups/{group}/delete", group_settings.delete, GROUP),
        _get("/groups/{group}/offsets", group_offsets.show),
        _post("/groups/{group}/offsets", group_offsets.apply, GROUP),
        _get("/groups/{group}/offsets/plan", group_offsets.export),
        _post("/groups/{group}/offsets/plan", group_offsets.look, READ_GROUP),
        _get("/groups/{group}/history", group_history.show),
        _get("/groups/{group}/resets/{id}", group_history.reset),
        _get("/groups/{group}/resets/{id}/undo", group_history.undo_page),
        _post("/groups/{group}/resets/{id}/undo", group_history.undo, GROUP),
        _get("/dlq", dead_letters.show),
        _get("/dlq/{group}", dead_letters.detail),
        _get("/dlq/{group}/resend", resend.show),
        _post("/dlq/{group}/resend", resend.create, GROUP),
        *(_get(f"/dlq/{{group}}/{verb}", dismiss.show) for verb in dismiss.VERBS),
        *(_post(f"/dlq/{{group}}/{verb}", dismiss.change, GROUP) for verb in dismiss.VERBS),
        _get("/dlq/{group}/export", dead_exports.export),
        _get("/dlq/{group}/{offset}", dead_letter.show),
        _get("/dlq/{group}/{offset}/raw", dead_letter.download),
        _post("/dlq/{group}/{offset}/resend", resend.one, GROUP),
        *_form("/jobs", jobs.index, replay_form.create, ANY_TOPIC),
        _get("/create/job", replay_form.show),
        _get("/jobs/history", job_history.index),
        _get("/jobs/{id}", job_history.show),
        _get("/jobs/{id}/export", job_export.export),
        _get("/jobs/{id}/copies/{message}", jobs.copy),
        _post("/jobs/{id}/rate", jobs.change_rate, ANY_GROUP),
        _post("/jobs/{id}/retry", jobs.retry, ANY_GROUP),
        *(_post(f"/jobs/{{id}}/{action}", jobs.act, ANY_GROUP) for action in jobs.NOTICES),
        _get("/trace", trace.show),
        _get("/trace/{id:path}", journey.show),
        _get("/scheduled", scheduled.show),
        *_form("/scheduled/{id}", scheduled.detail, scheduled.change, EVERY_TOPIC),
        _get("/transactions", transactions.show),
        *_form("/transactions/{id}", transactions.detail, transactions.decide, ANY_TOPIC),
        _get("/transactions/{id}/half", transactions.half),
        _get("/clients", clients.show),
        _get("/clients/{id:path}", client.show),
        _post("/client/stack", client.stack, ADMINISTER_SERVER),
        *_form("/client/disconnect", client.disconnect_page, client.disconnect, ADMINISTER_SERVER),
        _get("/brokers", brokers.show),
        _get("/engine", engine.show),
        _get("/engine/control", control.show),
        *_form("/engine/handover", leader.handover_page, leader.hand_over, ADMINISTER_CONTROL),
        *_form("/engine/promotion", leader.promotion_page, leader.promote, ADMINISTER_CONTROL),
        _post("/engine/control/read-only", control.switch, ADMINISTER_CONTROL),
        _post("/engine/control/log-level", control.change_level, ADMINISTER_CONTROL),
        _get("/audit", audit.show, READ_AUDIT),
        _get("/audit/export", audit.export, READ_AUDIT),
        _get("/search", search.show),
        _get("/access", access.show, READ_OWN),
        _get("/access/check", access_check.show, READ_PEOPLE),
        _post("/access/users", access.add_user, ADMINISTER_PEOPLE),
        _get("/access/users/{name}", access_user.show, READ_PEOPLE),
        _post("/access/users/{name}", access_user.change, ADMINISTER_PEOPLE),
        _post("/access/users/{name}/password", access_user.set_password, ADMINISTER_PEOPLE),
        _post("/access/users/{name}/delete", access_user.delete, ADMINISTER_PEOPLE),
        _post("/access/tokens", access.add_token, OWN),
        _post("/access/tokens/{id}/revoke", access.revoke_token, OWN),
        _post("/access/sessions/{id}/end", access.end_session, OWN),
        _post("/access/password", access.change_password, OWN),
        *_form("/login", login.show, login.log_in, PUBLIC, PUBLIC),
        _get("/login/provider", provider_login.begin, PUBLIC),
        _get("/login/callback", provider_login.back, PUBLIC),
        _get("/login/left", provider_login.logged_out, PUBLIC),
        _get("/login/leave-provider", provider_login.leave_far, PUBLIC),
        _post("/logout", login.log_out, OWN),
        _get("/alerts", alerts.show),
        *_form("/alerts/new", alert_rules.new, alert_rules.create, ADMINISTER_SERVER),
        *_form("/alerts/rules/{id}", alert_rules.edit, alert_rules.change, ADMINISTER_SERVER),
        _get("/alerts/rules/{id}/delete", alert_rules.delete_page),
        _post("/alerts/rules/{id}/delete", alert_rules.delete, ADMINISTER_SERVER),
        *_form(
            "/alerts/receivers/new",
            alert_receivers.new,
            alert_receivers.create,
            ADMINISTER_SERVER,
        ),
        *_form(
            "/alerts/receivers/{id}",
            alert_receivers.show,
            alert_receivers.change,
            ADMINISTER_SERVER,
        ),
        _post("/alerts/receivers/{id}/test", alert_receivers.test, ADMINISTER_SERVER),
        _get("/alerts/receivers/{id}/delete", alert_receivers.delete_page),
        _post("/alerts/receivers/{id}/delete", alert_receivers.delete, ADMINISTER_SERVER),
        _post("/alerts/acknowledge", alerts.acknowledge, ADMINISTER_SERVER),
        _post("/alerts/silences", alerts.silence, ADMINISTER_SERVER),
        _post("/alerts/silences/{id}/end", alerts.end_silence, ADMINISTER_SERVER),
        _post("/alerts/test", alerts.test, ADMINISTER_SERVER),
        _get("/reports", reports.show),
        _post("/reports/runs", reports.run, ADMINISTER_REPORT),
        _get("/reports/runs/{id}", reports.show_run),
        _post("/reports/runs/{id}/cancel", reports.cancel, ADMINISTER_REPORT),
        _get("/reports/backfill", report_schedule.backfill),
        _get("/reports/schedules/{job}", report_schedule.schedule),
        _post("/reports/schedules/{job}", report_schedule.change_schedule, ADMINISTER_SERVER),
        _get("/reports/{report}", report.show),
        _post("/preferences", preferences.change, READ_OWN),
        *_form("/settings", browser_settings.show, browser_settings.change, READ_OWN),
        _get("/help", help.show, READ_OWN),
        _get("/help/components", components.show, READ_OWN),
        *_form("/help/start", start.show, start.send, ANY_PRODUCE),
        _get("/palette", palette.show),
        *_form("/views", views.show, views.create, OWN, READ_OWN),
        _post("/views/{id}/delete", views.delete, OWN),
        _get("/static/{name:path}", static, PUBLIC),
        UnknownPage("/{path:path}", unknown_page, methods=["GET"]),
    ]
)
