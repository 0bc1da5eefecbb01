"""A writer of workbooks with one sheet; it streams rows and needs the standard library only.

The format is the smallest valid package of ECMA-376. Texts are inline strings, which no program
evaluates as formulas.
"""

import re
import zipfile
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import IO, Self
from xml.sax.saxutils import escape

from kitemq.model.spreadsheet_cells import Cell

ROWS_MAX = 1_048_576
CELL_CHARS_MAX = 32_767
FILES = {
    "[Content_Types].xml": (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels"'
        ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-'
        'officedocument.spreadsheetml.sheet.main+xml"/>'
        '<Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.'
        'openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>'
    ),
    "_rels/.rels": (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/'
        'relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>'
    ),
    "xl/workbook.xml": (
        '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
        ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
        '<sheets><sheet name="%(sheet)s" sheetId="1" r:id="rId1"/></sheets></workbook>'
    ),
    "xl/_rels/workbook.xml.rels": (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/'
        'relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>'
    ),
}
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
SHEET = "xl/worksheets/sheet1.xml"
# Characters that XML forbids, and texts that look like an escape of the format.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
ESCAPE = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")


class Workbook:
    """A context manager that writes a workbook to `file` and completes it on exit."""

    def __init__(self, file: IO[bytes], sheet: str = "Dead letters") -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=3)
        for name, text in FILES.items():
            self._zip.writestr(name, HEAD + text.replace("%(sheet)s", escape(sheet)))
        self._sheet = self._zip.open(SHEET, "w", force_zip64=True)
        self._write(
            f'{HEAD}<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
            "<sheetData>"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write("</sheetData></worksheet>")
        self._sheet.close()
        self._zip.close()

    def add(self, rows: Iterable[Sequence[Cell]]) -> None:
        """Write rows, numbers as numbers; a text is cut at `CELL_CHARS_MAX` characters."""
        for row in rows:
            self._write(f"<row>{''.join(map(_cell, row))}</row>")

    def _write(self, text: str) -> None:
        self._sheet.write(text.encode())


def _cell(value: Cell) -> str:
    if isinstance(value, int | float):
        return f"<c><v>{value}</v></c>"
    text = ESCAPE.sub("_x005F_", FORBIDDEN.sub("\ufffd", (value or "")[:CELL_CHARS_MAX]))
    text = escape(text).replace("\r", "_x000D_")
    return f'<c t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
