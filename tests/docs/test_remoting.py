"""The page of classic clients lists every request code as the server's table has it."""

from pathlib import Path

from app.remoting.operations import page

PAGE = Path(__file__).parents[2] / "docs" / "remoting.md"


def test_the_page_lists_every_request_code_as_the_server_answers_it() -> None:
    assert page() in PAGE.read_text(), (
        "run `python -m app.remoting.operations` and paste its output"
    )
