"""The frames of `/ws/v1` as pure bytes <-> typed values, for the SDK and the server."""
