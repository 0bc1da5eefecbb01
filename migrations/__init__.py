"""Alembic's scripts: `env.py` runs them, `versions` holds one dated step each, up and down."""
