"""Servers to be killed, and a disk small enough to be filled."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.process import ServerProcess

SMALL_DISK_MIB = 24


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path / "data")
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own; only root may make one."""
    root = tmp_path / "disk"
    root.mkdir()
    size = f"size={SMALL_DISK_MIB}m"
    mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(root)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("a small disk has to be mounted, and only root may do that")
    try:
        yield root
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)
