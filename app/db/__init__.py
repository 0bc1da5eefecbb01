"""The control plane in SQL: what people did, never message bytes."""
