"""A server on a directory that a receipt had bricked: it serves, and says what was set aside."""

import tarfile
from pathlib import Path

import pytest

from tests.app.conftest import started

pytestmark = pytest.mark.anyio
BRICKED = Path(__file__).parents[1] / "engine" / "store" / "fixtures" / "bricked-ack.tar.gz"
SMALL = {"segment_bytes": 16384, "queue_file_entries": 26, "index_slots": 13, "index_items": 40}
JOURNAL = "config/progress.journal.0000000000"


async def test_a_server_says_what_its_start_set_aside(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with tarfile.open(BRICKED) as archive:
        archive.extractall(data, filter="data")
    async with started(data, **SMALL) as running:
        answer = await running.http.get("/readyz")
        assert answer.status_code == 200, answer.text
        assert JOURNAL in answer.json()["warnings"]["damage"]
        (copy,) = (data / "set-aside").iterdir()
        checks = await running.get("/self-checks")
        (recovery,) = [each for each in checks["items"] if each["code"] == "recovery"]
        assert recovery["outcome"] == "warning"
        assert JOURNAL in recovery["detail"]
        assert copy.name in recovery["detail"]
        page = (await running.http.get("/engine")).text
        assert JOURNAL in page
        assert f"set-aside/{copy.name}" in page
        (delivery,) = await running.receive("g", "orders")
        assert delivery["body"] == "first"
