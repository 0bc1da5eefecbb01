"""The reports' figures smaller: histograms as bytes, and older hours packed as blocks.

Revision 20261122_packed, after 20261122_topic_marks.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

from engine.histogram import pack, unpack

revision = "20261122_packed"
down_revision = "20261122_topic_marks"
branch_labels = None
depends_on = None

CHUNK_ROWS = 2_000
KEY = ("hour", "metric", "topic", "group", "client")


def upgrade() -> None:
    """Add the blocks, and pack the histograms that there are."""
    op.create_table(
        "report_packed",
        sa.Column("name", sa.String(16), nullable=False),
        sa.Column("begin", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("hours", sa.Integer(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("groups", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", "begin", "topic", name="pk_report_packed"),
    )
    _alter(sa.Text(), sa.LargeBinary(), "convert_to(buckets, 'UTF8')")
    _rewrite(sa.LargeBinary(), _packed)


def downgrade() -> None:
    """Unpack the histograms. Blocks are dropped: their hours count as not done, so that what the
    log and the Parquet still keep of them is computed again."""
    _forget_packed()
    op.drop_table("report_packed")
    _rewrite(sa.LargeBinary(), _unpacked)
    _alter(sa.LargeBinary(), sa.Text(), "convert_from(buckets, 'UTF8')")


def _forget_packed() -> None:
    """Have the hours up to the last one that is packed computed anew."""
    connection = op.get_bind()
    blocks = sa.table(
        "report_packed", sa.column("name"), sa.column("begin"), sa.column("hours", sa.Integer())
    )
    done = sa.table("report_partitions", sa.column("job"), sa.column("hour"))
    for job, is_its in (
        ("lag", blocks.c.name.like("lag%")),
        ("traces", blocks.c.name.not_like("lag%")),
    ):
        last = sa.select(sa.func.max(blocks.c.begin + blocks.c.hours)).where(is_its)
        end = connection.execute(last).scalar()
        if end is not None:
            hour = datetime.fromtimestamp(end * 3600, UTC).strftime("%Y-%m-%dT%H")
            connection.execute(sa.delete(done).where(done.c.job == job, done.c.hour < hour))


def _alter(before: Any, after: Any, using: str) -> None:
    with op.batch_alter_table("report_latency", table_kwargs={"sqlite_with_rowid": False}) as batch:
        batch.alter_column(
            "buckets",
            existing_type=before,
            type_=after,
            existing_nullable=False,
            postgresql_using=using,
        )


def _packed(text: bytes) -> bytes:
    return pack(msgspec.json.decode(text, type=dict[int, int], strict=False))


def _unpacked(data: bytes) -> bytes:
    return msgspec.json.encode({str(bucket): n for bucket, n in sorted(unpack(data).items())})


def _rewrite(kind: Any, convert: Callable[[bytes], bytes]) -> None:
    """Convert the histogram of each row, some at a time."""
    table = sa.table(
        "report_latency", *(sa.column(name, sa.Text()) for name in KEY), sa.column("buckets", kind)
    )
    keys = [table.c[name] for name in KEY]
    change = (
        sa.update(table)
        .where(*(column == sa.bindparam(f"old_{column.name}") for column in keys))
        .values(buckets=sa.bindparam("new"))
    )
    connection = op.get_bind()
    statement = sa.select(*keys, table.c.buckets).order_by(*keys).limit(CHUNK_ROWS)
    after: tuple[str, ...] = ()
    while True:
        following = statement.where(sa.tuple_(*keys) > sa.tuple_(*after)) if after else statement
        rows = connection.execute(following).all()
        changes = [
            {**{f"old_{name}": value for name, value in zip(KEY, row, strict=False)},
             "new": convert(bytes(row.buckets))}
            for row in rows
        ]  # fmt: skip
        if changes:
            connection.execute(change, changes)
        if len(rows) < CHUNK_ROWS:
            return
        after = tuple(rows[-1][: len(KEY)])
