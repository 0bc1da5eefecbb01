"""What a moment of a report's charts leads to: messages, members, or the report of that time. Pure.

`{from}`, `{to}` and `{zone}` stand for the moment, which chart.js fills in.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from app.ui.framework.charts import TIME, Lead, messages_lead
from app.ui.framework.language import _

OWN = {"range": "own"}


def leads_of(report: str, values: Mapping[str, str], query: Mapping[str, str]) -> Sequence[Lead]:
    """The leads of a report on the topic and the group in `values`; `query` is the page's."""
    topic, group = values["topic"], values["group"]
    leads: list[Lead] = []
    if topic:
        leads.append(messages_lead(topic))
    if group:
        path = quote(group, safe="")
        if report == "failures" and values["choice"] == "dead":
            href = f"/dlq/{path}?state=all&{TIME.replace('to=', 'until=')}"
            leads.append(Lead(_("Dead letters of that time"), href))
        at = urlencode({"topic": topic} if topic else {})
        leads.append(Lead(_("The group's lag then"), f"/groups/{path}?{at}&{TIME}"))
        leads.append(Lead(_("Members then"), f"/groups/{path}/history?{TIME}#members-then"))
    if report not in ("slowest", "lag", "transactions"):
        href = f"/reports/slowest?{urlencode({**OWN, 'topic': topic, 'group': group})}&{TIME}"
        leads.append(Lead(_("Slowest messages then"), href))
    own = {name: value for name, value in query.items() if name not in ("from", "to", "zone")}
    leads.append(Lead(_("Only this time"), f"/reports/{report}?{urlencode({**own, **OWN})}&{TIME}"))
    return leads
