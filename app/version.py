"""The version, where everybody finds it."""

VERSION = "0.1.0"
