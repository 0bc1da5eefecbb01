"""What the console's templates, style sheets and scripts are held to."""

from tests.docs.pages import ROOT, own_files

COLUMNS_MAX = 120
SUFFIXES = (".html", ".css", ".js")


def test_no_line_of_a_template_style_sheet_or_script_is_longer_than_120_columns() -> None:
    files = [
        path
        for path in own_files()
        if path.suffix in SUFFIXES and path.is_relative_to(ROOT / "app") and path.is_file()
    ]
    assert {path.suffix for path in files} == set(SUFFIXES)
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        if "vendor" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > COLUMNS_MAX
    ]
    assert not long, "break these lines, or make what they repeat a macro"
