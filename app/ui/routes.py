"""Every address of the console."""

import functools

from fastapi import APIRouter
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from app.ui.access import access, login, provider_login
from app.ui.access import check as access_check
from app.ui.access import user as access_user
from app.ui.alerts import alerts
from app.ui.alerts import rules as alert_rules
from app.ui.audit import audit
from app.ui.clients import client, clients
from app.ui.dead_letters import dead_letter, dead_letters, dismiss, resend
from app.ui.dead_letters import exports as dead_exports
from app.ui.engine import control, engine
from app.ui.framework import pages, preferences, rights
from app.ui.framework.failures import Handler, page, unknown_page
from app.ui.groups import bulk as group_bulk
from app.ui.groups import group, groups
from app.ui.groups import history as group_history
from app.ui.groups import members as group_members
from app.ui.groups import offsets as group_offsets
from app.ui.groups import retries as group_retries
from app.ui.groups import settings as group_settings
from app.ui.help import components, help
from app.ui.home import overview
from app.ui.journeys import journey
from app.ui.journeys import search as trace
from app.ui.messages import export as message_export
from app.ui.messages import message, messages, publish, tail, verify
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


async def static(request: Request) -> Response:
    """GET /static/{name}"""
    return pages.console_of(request).assets.respond(request)


class UnknownPage(Route):
    """Any address that a person typed and that is no page; programs get the API's own answer."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["path"].startswith("/api/"):
            return Match.NONE, {}
        if "text/html" not in Headers(scope=scope).get("accept", ""):
            return Match.NONE, {}
        return super().matches(scope)


def _get(path: str, handler: Handler) -> Route:
    return Route(path, page(guarded("GET", path, handler)), methods=["GET"])


def _post(path: str, handler: Handler) -> Route:
    return Route(path, page(guarded("POST", path, handler)), methods=["POST"])


def guarded(method: str, path: str, handler: Handler) -> Handler:
    """A handler that is only reached with the right that `rights.py` names for its address."""
    needs = rights.needs_of(method, path)

    @functools.wraps(handler)
    async def checked(request: Request) -> Response:
        needs.check(request.scope)
        return await handler(request)

    return checked


router = APIRouter(
    routes=[
        _get("/", overview.show),
        _get("/topics", topics.show),
        _post("/topics", topics.create),
        _get("/create/topic", topics.new),
        _get("/topics/{topic}", topic.show),
        _get("/topics/{topic}/messages", topic_messages.show),
        _get("/topics/{topic}/groups", topic.groups),
        _get("/topics/{topic}/produce", publish.show),
        _post("/topics/{topic}/produce", publish.send),
        _get("/topics/{topic}/config", topic.config_page),
        _post("/topics/{topic}/config", topic.change),
        _get("/topics/{topic}/purge", purge.show),
        _post("/topics/{topic}/purge", purge.purge),
        _get("/topics/{topic}/docs", topic_docs.show),
        _post("/topics/{topic}/docs", topic_docs.change),
        _post("/topics/{topic}/star", starred.change),
        _get("/topics/{topic}/delete", topic.delete_page),
        _post("/topics/{topic}/delete", topic.delete),
        _get("/import/topics", topic_import.show),
        _post("/import/topics", topic_import.change),
        _get("/bulk/topics", topic_bulk.show),
        _post("/bulk/topics", topic_bulk.apply),
        _get("/messages", messages.show),
        _get("/messages/export", message_export.show),
        _get("/tail", tail.show),
        _get("/tail/stream", tail.stream),
        _get("/messages/{topic}/{queue}/{offset}", message.show),
        _get("/messages/{topic}/{queue}/{offset}/raw", message.download),
        _get("/messages/{topic}/{queue}/{offset}/verify", verify.show),
        _post("/messages/{topic}/{queue}/{offset}/verify", verify.verify),
        _get("/m/{id}", message.by_id),
        _get("/groups", groups.show),
        _get("/bulk/groups", group_bulk.show),
        _post("/bulk/groups", group_bulk.apply),
        _get("/groups/{group}", group.show),
        _get("/groups/{group}/clients", group_members.clients),
        _get("/groups/{group}/leave", group_members.leave_page),
        _post("/groups/{group}/leave", group_members.leave),
        _get("/groups/{group}/subscriptions", group_members.subscriptions),
        _get("/groups/{group}/retries", group_retries.show),
        _get("/groups/{group}/config", group_settings.show),
        _post("/groups/{group}/config", group_settings.change),
        _get("/groups/{group}/pause", group_settings.pause_page),
        _post("/groups/{group}/pause", group_settings.pause),
        _get("/groups/{group}/resume", group_settings.resume_page),
        _post("/groups/{group}/resume", group_settings.resume),
        _get("/groups/{group}/delete", group_settings.delete_page),
        _post("/groups/{group}/delete", group_settings.delete),
        _get("/groups/{group}/offsets", group_offsets.show),
        _post("/groups/{group}/offsets", group_offsets.apply),
        _get("/groups/{group}/offsets/plan", group_offsets.export),
        _post("/groups/{group}/offsets/plan", group_offsets.look),
        _get("/groups/{group}/history", group_history.show),
        _get("/groups/{group}/resets/{id}", group_history.reset),
        _get("/groups/{group}/resets/{id}/undo", group_history.undo_page),
        _post("/groups/{group}/resets/{id}/undo", group_history.undo),
        _get("/dlq", dead_letters.show),
        _get("/dlq/{group}", dead_letters.detail),
        _get("/dlq/{group}/resend", resend.show),
        _post("/dlq/{group}/resend", resend.create),
        *(_get(f"/dlq/{{group}}/{verb}", dismiss.show) for verb in dismiss.VERBS),
        *(_post(f"/dlq/{{group}}/{verb}", dismiss.change) for verb in dismiss.VERBS),
        _get("/dlq/{group}/export", dead_exports.export),
        _get("/dlq/{group}/{offset}", dead_letter.show),
        _get("/dlq/{group}/{offset}/raw", dead_letter.download),
        _post("/dlq/{group}/{offset}/resend", resend.one),
        _get("/jobs", jobs.index),
        _post("/jobs", replay_form.create),
        _get("/create/job", replay_form.show),
        _get("/jobs/history", job_history.index),
        _get("/jobs/{id}", job_history.show),
        _get("/jobs/{id}/export", job_export.export),
        _get("/jobs/{id}/copies/{message}", jobs.copy),
        _post("/jobs/{id}/rate", jobs.change_rate),
        _post("/jobs/{id}/retry", jobs.retry),
        *(_post(f"/jobs/{{id}}/{action}", jobs.act) for action in jobs.NOTICES),
        _get("/trace", trace.show),
        _get("/trace/{id:path}", journey.show),
        _get("/scheduled", scheduled.show),
        _get("/scheduled/{id}", scheduled.detail),
        _post("/scheduled/{id}", scheduled.change),
        _get("/transactions", transactions.show),
        _get("/transactions/{id}", transactions.detail),
        _post("/transactions/{id}", transactions.decide),
        _get("/transactions/{id}/half", transactions.half),
        _get("/clients", clients.show),
        _get("/clients/{id:path}", client.show),
        _post("/client/stack", client.stack),
        _get("/client/disconnect", client.disconnect_page),
        _post("/client/disconnect", client.disconnect),
        _get("/engine", engine.show),
        _get("/engine/control", control.show),
        _post("/engine/control/read-only", control.switch),
        _post("/engine/control/log-level", control.change_level),
        _get("/audit", audit.show),
        _get("/audit/export", audit.export),
        _get("/search", search.show),
        _get("/access", access.show),
        _get("/access/check", access_check.show),
        _post("/access/users", access.add_user),
        _get("/access/users/{name}", access_user.show),
        _post("/access/users/{name}", access_user.change),
        _post("/access/users/{name}/password", access_user.set_password),
        _post("/access/users/{name}/delete", access_user.delete),
        _post("/access/tokens", access.add_token),
        _post("/access/tokens/{id}/revoke", access.revoke_token),
        _post("/access/sessions/{id}/end", access.end_session),
        _post("/access/password", access.change_password),
        _get("/login", login.show),
        _post("/login", login.log_in),
        _get("/login/provider", provider_login.begin),
        _get("/login/callback", provider_login.back),
        _get("/login/left", provider_login.logged_out),
        _get("/login/leave-provider", provider_login.leave_far),
        _post("/logout", login.log_out),
        _get("/alerts", alerts.show),
        _get("/alerts/new", alert_rules.new),
        _post("/alerts/new", alert_rules.create),
        _get("/alerts/rules/{id}", alert_rules.edit),
        _post("/alerts/rules/{id}", alert_rules.change),
        _get("/alerts/rules/{id}/delete", alert_rules.delete_page),
        _post("/alerts/rules/{id}/delete", alert_rules.delete),
        _post("/alerts/acknowledge", alerts.acknowledge),
        _post("/alerts/silences", alerts.silence),
        _post("/alerts/silences/{id}/end", alerts.end_silence),
        _post("/alerts/test", alerts.test),
        _get("/reports", reports.show),
        _post("/reports/runs", reports.run),
        _get("/reports/runs/{id}", reports.show_run),
        _post("/reports/runs/{id}/cancel", reports.cancel),
        _get("/reports/backfill", report_schedule.backfill),
        _get("/reports/schedules/{job}", report_schedule.schedule),
        _post("/reports/schedules/{job}", report_schedule.change_schedule),
        _get("/reports/{report}", report.show),
        _post("/preferences", preferences.change),
        _get("/settings", browser_settings.show),
        _post("/settings", browser_settings.change),
        _get("/help", help.show),
        _get("/help/components", components.show),
        _get("/palette", palette.show),
        _get("/views", views.show),
        _post("/views", views.create),
        _post("/views/{id}/delete", views.delete),
        _get("/static/{name:path}", static),
        UnknownPage("/{path:path}", unknown_page, methods=["GET"]),
    ],
)
