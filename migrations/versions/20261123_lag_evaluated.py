"""The report of lags says which stretches of each hour were evaluated.

Figures of before do not tell: the column is "". Revision 20261123_lag_evaluated.
"""

import zlib

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "20261123_lag_evaluated"
down_revision = "20261123_read_messages"
branch_labels = None
depends_on = None

TABLE, COLUMN = "lag_hours", "evaluated"
LEVEL = 9
COLUMNS_BEFORE = 24  # of a block of this table: all but hour and topic


def upgrade() -> None:
    """Add the column; packed blocks are read without it."""
    op.add_column(
        f"report_{TABLE}",
        sa.Column(COLUMN, sa.Text(), nullable=False, server_default=sa.text("''")),
    )


def downgrade() -> None:
    """Take it away, of packed blocks too: the version before knows no such column."""
    op.drop_column(f"report_{TABLE}", COLUMN)
    connection = op.get_bind()
    packed = sa.table(
        "report_packed",
        sa.column("name", sa.String),
        sa.column("begin", sa.Integer),
        sa.column("topic", sa.Text),
        sa.column("data", sa.LargeBinary),
    )
    rows = connection.execute(sa.select(packed).where(packed.c.name == TABLE)).all()
    for row in rows:
        form, columns = msgspec.msgpack.decode(zlib.decompress(row.data))
        if len(columns) <= COLUMNS_BEFORE:
            continue
        data = zlib.compress(msgspec.msgpack.encode([form, columns[:COLUMNS_BEFORE]]), LEVEL)
        place = (packed.c.name == TABLE, packed.c.begin == row.begin, packed.c.topic == row.topic)
        connection.execute(packed.update().where(*place).values(data=data))
