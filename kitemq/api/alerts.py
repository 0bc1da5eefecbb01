# Made from kitemq/async_api/alerts.py by `python -m tools.synchronous`: change that file.
"""Alerts: rules, receivers, the states of subjects, silences, and deliveries."""

from collections.abc import Iterator
from typing import Any

from kitemq.api.connection import Api
from kitemq.model.alerts import (
    AlertChange,
    AlertDeliveries,
    AlertDelivery,
    AlertHistory,
    AlertReceiver,
    AlertReceivers,
    AlertRule,
    AlertRulePatch,
    AlertRules,
    AlertStates,
    AlertSubject,
    NewAcknowledgement,
    NewAlertReceiver,
    NewAlertRule,
    NewSilence,
    ReceiverPatch,
    Silence,
    TestSent,
)
from kitemq.rest import segment


class AlertsApi(Api):
    """`client.alerts`: rules, what fires, silences, and who was notified."""

    def states(self) -> AlertStates:
        """The state of every rule, firing ones first, and the silences."""
        return self._rest.fetch(AlertStates, "GET", "/alerts")

    def rules(self) -> list[AlertRule]:
        """Every rule by name; at most 200."""
        return (self._rest.fetch(AlertRules, "GET", "/alerts/rules")).items

    def rule(self, rule_id: str) -> AlertRule:
        """One rule; NotFound."""
        return self._rest.fetch(AlertRule, "GET", _path(rule_id))

    def create_rule(self, name: str, kind: str, **settings: Any) -> AlertRule:
        """Add a rule, which is evaluated within ten seconds.

        `settings` are the fields of `kitemq.model.alerts.NewAlertRule`.
        """
        fields = {"name": name, "kind": kind, **settings}
        return self._rest.fetch(AlertRule, "POST", "/alerts/rules", body=NewAlertRule(**fields))

    def change_rule(self, rule_id: str, **settings: Any) -> AlertRule:
        """Change the given fields: those of `kitemq.model.alerts.AlertRulePatch`."""
        body = AlertRulePatch(**settings)
        return self._rest.fetch(AlertRule, "PATCH", _path(rule_id), body=body)

    def delete_rule(self, rule_id: str) -> None:
        """Delete a rule with its silences."""
        self._rest.call("DELETE", _path(rule_id))

    def history(self, rule_id: str, *, limit: int = 0) -> Iterator[AlertChange]:
        """What a rule fired for and who was notified, newest first; `limit` 0 means all."""
        return self._rest.pages(AlertHistory, f"{_path(rule_id)}/history", count_max=limit)

    def receivers(self) -> list[AlertReceiver]:
        """Every receiver, without secrets; those of the setting have no id."""
        return (self._rest.fetch(AlertReceivers, "GET", "/alerts/receivers")).items

    def receiver(self, receiver_id: str) -> AlertReceiver:
        """One receiver; NotFound."""
        return self._rest.fetch(AlertReceiver, "GET", _receiver_path(receiver_id))

    def create_receiver(self, name: str, kind: str, **settings: Any) -> AlertReceiver:
        """Add a receiver: webhook, slack, teams or email.

        `settings` are the fields of `kitemq.model.alerts.NewAlertReceiver`.
        """
        fields = {"name": name, "kind": kind, **settings}
        body = NewAlertReceiver(**fields)
        return self._rest.fetch(AlertReceiver, "POST", "/alerts/receivers", body=body)

    def change_receiver(self, receiver_id: str, **settings: Any) -> AlertReceiver:
        """Change the given fields: those of `kitemq.model.alerts.ReceiverPatch`."""
        body = ReceiverPatch(**settings)
        path = _receiver_path(receiver_id)
        return self._rest.fetch(AlertReceiver, "PATCH", path, body=body)

    def delete_receiver(self, receiver_id: str) -> None:
        """Delete a receiver; Refused while a rule names it."""
        self._rest.call("DELETE", _receiver_path(receiver_id))

    def test_receiver(self, receiver_id: str) -> TestSent:
        """Send one receiver an event that says it is a test."""
        return self._rest.fetch(TestSent, "POST", f"{_receiver_path(receiver_id)}/test")

    def acknowledge(self, rule_id: str, *, subject: str = "") -> AlertSubject:
        """Say that the caller takes care of a rule that fires for `subject`; it goes on firing."""
        body = NewAcknowledgement(rule_id, subject)
        return self._rest.fetch(AlertSubject, "POST", "/alerts/acknowledge", body=body)

    def silence(
        self, until_ms: int, *, rule_id: str = "", subject: str = "", note: str = ""
    ) -> Silence:
        """Notify no receiver until `until_ms` (ms since 1970 UTC).

        Of a rule, or of all without `rule_id`; of one `subject` of it, or of all.
        """
        body = NewSilence(until_ms, rule_id, subject, note)
        return self._rest.fetch(Silence, "POST", "/alerts/silences", body=body)

    def end_silence(self, silence_id: str) -> None:
        """End a silence before its time."""
        self._rest.call("DELETE", f"/alerts/silences/{segment(silence_id)}")

    def deliveries(self, *, limit: int = 0) -> Iterator[AlertDelivery]:
        """Deliveries to receivers, the newest first, page by page; at most `limit`, 0 means all."""
        return self._rest.pages(AlertDeliveries, "/alerts/deliveries", count_max=limit)

    def test(self) -> TestSent:
        """Send every receiver an event that says it is a test; Refused where there is none."""
        return self._rest.fetch(TestSent, "POST", "/alerts/test")


def _path(rule_id: str) -> str:
    return f"/alerts/rules/{segment(rule_id)}"


def _receiver_path(receiver_id: str) -> str:
    return f"/alerts/receivers/{segment(receiver_id)}"
