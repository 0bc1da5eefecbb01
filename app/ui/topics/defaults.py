"""The effective settings of a topic: its own, or the broker's defaults. Pure."""

from dataclasses import dataclass

from app.ui.framework.language import N_, _, translated
from app.ui.topics import fields as topic_fields
from engine.broker import TopicConfig
from engine.config import EngineConfig

HOUR_MS = 3_600_000
OWN, DEFAULT, FIXED = N_("set on the topic"), N_("broker default"), N_("fixed at creation")
PERMISSIONS = (
    ("6", N_("read and write")),
    ("4", N_("read only")),
    ("2", N_("write only")),
    ("0", N_("none")),
)


@dataclass(frozen=True)
class InForce:
    """An effective setting; `setting` is the broker's setting with its default.

    `otherwise` is the broker's default if the topic has its own value.
    """

    label: str
    value: str
    source: str
    is_own: bool
    setting: str = ""
    otherwise: str = ""


def in_force(config: TopicConfig, engine: EngineConfig) -> list[InForce]:
    """The effective settings of a topic."""
    queues, permissions = str(engine.default_queues), dict(PERMISSIONS)
    return [
        InForce(_("Type"), config.type.value, translated(FIXED), is_own=True),
        _own(_("Read queues"), str(config.read_queues), "default_queues", queues),
        _own(_("Write queues"), str(config.write_queues), "default_queues", queues),
        _own(_("Permission"), translated(permissions.get(str(config.permission), "?")), "", ""),
        _either(
            _("Durability"),
            config.durability.value if config.durability else None,
            engine.durability.value,
            "durability",
        ),
        _either(
            _("Retention"),
            None if config.retention_ms is None else _retention_text(config.retention_ms),
            _retention_text(round(engine.retention_h * HOUR_MS)),
            "retention_h",
        ),
        _either(
            _("Trace sample, percent"),
            None if config.trace_sample is None else topic_fields.percent_text(config.trace_sample),
            topic_fields.percent_text(engine.trace_sample),
            "trace_sample",
        ),
    ]


def _own(label: str, value: str, setting: str, otherwise: str) -> InForce:
    """A setting that every topic has since its creation."""
    return InForce(label, value, translated(OWN), True, setting, otherwise)


def _either(label: str, own: str | None, default: str, setting: str) -> InForce:
    if own is None:
        return InForce(label, default, translated(DEFAULT), False, setting)
    return InForce(label, own, translated(OWN), True, setting, default)


def _retention_text(length_ms: int) -> str:
    return topic_fields.retention_text(length_ms) if length_ms else _("unlimited")
