"""How Alembic reaches the database: the server's own connection, or the one the settings name."""

from alembic import context
from sqlalchemy import Connection, create_engine

from app.db.report_tables import metadata
from app.settings import load


def run(connection: Connection) -> None:
    """Run the wanted steps in one transaction; SQLite alters a table by copying it."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=True,
        compare_type=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def run_offline() -> None:
    """Print the statements instead of running them (`alembic upgrade head --sql`)."""
    context.configure(
        url=load().database,
        target_metadata=metadata,
        literal_binds=True,
        render_as_batch=True,
        dialect_opts={"paramstyle": "named"},
    )
    with context.begin_transaction():
        context.run_migrations()


def run_online() -> None:
    """Use the connection handed in by `app.db.migrate`, else open the settings' database."""
    handed_in = context.config.attributes.get("connection")
    if isinstance(handed_in, Connection):
        run(handed_in)
        return
    settings = load()
    if not settings.database_url:
        settings.data.mkdir(parents=True, exist_ok=True)
    engine = create_engine(settings.database)
    with engine.begin() as connection:
        run(connection)
    engine.dispose()


if context.is_offline_mode():
    run_offline()
else:
    run_online()
