"""The reports: schedules, runs, which hours are done, and the figures by hour.

Revision 20261121_reports, after 20261121_views.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "20261121_reports"
down_revision = "20261121_views"
branch_labels = None
depends_on = None

KINDS: dict[str, Any] = {
    "s": sa.Text,
    "i": sa.Integer,
    "b": sa.BigInteger,
    "d": sa.Double,
}
# Table, key, columns with their kinds; texts and what is in the key are never NULL.
FIGURES: Sequence[tuple[str, str, str]] = (
    (
        "latency",
        "hour metric topic group client",
        "hour:s metric:s topic:s group:s client:s n:b messages:b total:b least:b most:b "
        "skewed:b p50:d p95:d p99:d buckets:s",
    ),
    (
        "throughput",
        "hour kind topic group",
        "hour:s kind:s topic:s group:s messages:b counted:b bytes:b",
    ),
    (
        "outcomes",
        "hour topic group",
        "hour:s topic:s group:s attempts:b retried:b acked:b failed:b expired:b returned:b "
        "dead:b unfinished:b retry_rate:d dead_rate:d success_rate:d",
    ),
    (
        "failures",
        "hour kind topic group rank",
        "hour:s kind:s topic:s group:s rank:i reason:s reasons:b messages:b counted:b",
    ),
    (
        "slowest",
        "hour topic group rank",
        "hour:s topic:s group:s rank:i end_to_end_ms:b message_id:s stored_topic:s queue:i "
        "offset:b born_ms:b stored_ms:b delivered_ms:b acked_ms:b attempt:i client:s",
    ),
    (
        "hot_keys",
        "hour topic kind rank",
        "hour:s topic:s kind:s rank:i value:s values:b messages:b bytes:b",
    ),
    (
        "queue_skew",
        "hour topic queue",
        "hour:s topic:s queue:i messages:b bytes:b queues:i share:d skew:d",
    ),
    (
        "transactions",
        "hour topic group outcome detail",
        "hour:s topic:s group:s outcome:s detail:s messages:b",
    ),
    (
        "lag_hours",
        "hour group topic",
        "hour:s group:s topic:s at_ms:b state:s worst_state:s worst_queue:i queues:i lag:b "
        "time_lag_ms:b produce_per_s:d consume_per_s:d eta_s:d retry_waiting:b dead:b members:i "
        "advice:s advice_params:s lag_max:b time_lag_max_ms:b hot_queue:i idle_members:i lost:b "
        "completeness:d evaluations:i state_ms:s",
    ),
    (
        "lag_bands",
        "hour group topic queue begin_ms",
        "hour:s group:s topic:s queue:i begin_ms:b end_ms:b state:s lag_max:b time_lag_max_ms:b",
    ),
    (
        "lag_now",
        "group topic queue",
        "hour:s group:s topic:s queue:i at_ms:b state:s raw_state:s lag:b time_lag_ms:b "
        "produce_per_s:d consume_per_s:d eta_s:d retry_waiting:b dead:b members:i advice:s "
        "advice_params:s slope_per_s:d committed:b lost:b risk_s:d completeness:d",
    ),
)


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "report_schedules",
        sa.Column("job", sa.String(32), nullable=False),
        sa.Column("cron", sa.String(128), nullable=False),
        sa.Column("is_enabled", sa.Boolean(), nullable=False),
        sa.Column("limit_s", sa.Integer(), nullable=False),
        sa.Column("next_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("job", name="pk_report_schedules"),
    )
    _create_runs()
    op.create_table(
        "report_partitions",
        sa.Column("job", sa.String(32), nullable=False),
        sa.Column("hour", sa.String(13), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("done_ms", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job", "hour", name="pk_report_partitions"),
    )
    for name, key, columns in FIGURES:
        op.create_table(
            f"report_{name}",
            *(_column(word, key.split()) for word in columns.split()),
            sa.PrimaryKeyConstraint(*key.split(), name=f"pk_report_{name}"),
            sqlite_with_rowid=False,
        )


def _column(word: str, key: list[str]) -> sa.Column[Any]:
    name, _, kind = word.partition(":")
    of_kind = sa.String(13) if name == "hour" else KINDS[kind]()
    return sa.Column(name, of_kind, nullable=name not in key and kind != "s")


def _create_runs() -> None:
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "report_runs",
        sa.Column("id", kind, autoincrement=True, nullable=False),
        sa.Column("job", sa.String(32), nullable=False),
        sa.Column("cause", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("began_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("owner", sa.String(512), nullable=False),
        sa.Column("lease_ms", sa.BigInteger(), nullable=False),
        sa.Column("hours_json", sa.Text(), nullable=False),
        sa.Column("rows_in", sa.BigInteger(), nullable=True),
        sa.Column("rows_out", sa.BigInteger(), nullable=True),
        sa.Column("input_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("inputs_json", sa.Text(), nullable=False),
        sa.Column("counters_json", sa.Text(), nullable=False),
        sa.Column("spark", sa.String(64), nullable=False),
        sa.Column("java", sa.String(64), nullable=False),
        sa.Column("master", sa.String(255), nullable=False),
        sa.Column("peak_kib", sa.BigInteger(), nullable=True),
        sa.Column("error_class", sa.String(128), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("log_tail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_report_runs"),
    )
    running = sa.text("state = 'running'")
    op.create_index(
        "uq_report_runs_state",
        "report_runs",
        ["state"],
        unique=True,
        sqlite_where=running,
        postgresql_where=running,
    )
    op.create_index("ix_report_runs_job_id", "report_runs", ["job", "id"])


def downgrade() -> None:
    """Drop all; the figures can be computed again from what the log and the Parquet still keep."""
    for name, _key, _columns in FIGURES:
        op.drop_table(f"report_{name}")
    op.drop_table("report_partitions")
    op.drop_index("ix_report_runs_job_id", table_name="report_runs")
    op.drop_index("uq_report_runs_state", table_name="report_runs")
    op.drop_table("report_runs")
    op.drop_table("report_schedules")
