"""REST under `/api/v1`: produce, consume, administer; one resource in a file with its shapes."""
