"""A program in place of the one that computes reports."""

import stat
from pathlib import Path

import pytest

from app.services.reports import child


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Have the reports' processes started by way of a shell script; `$@` is what they are told."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(child.sys, "executable", str(path))
