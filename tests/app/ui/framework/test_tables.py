"""Lists cut into pages."""

from app.ui.framework import tables
from app.ui.framework.tables import Query

ROWS = list(range(105))


def query(page: int = 1, size: int = 25) -> Query:
    return Query("", "name", False, page, size)


def test_a_page_says_which_rows_it_shows() -> None:
    cut = tables.cut(ROWS, query(page=2))
    assert (cut.first, cut.last, cut.total, cut.page, cut.pages) == (26, 50, 105, 2, 5)
    assert list(cut.rows) == ROWS[25:50]


def test_a_page_past_the_end_shows_the_last() -> None:
    cut = tables.cut(ROWS, query(page=99))
    assert (cut.first, cut.last, cut.page) == (101, 105, 5)


def test_no_rows_make_one_empty_page() -> None:
    cut = tables.cut([], query(page=3))
    assert (cut.first, cut.last, cut.page, cut.pages) == (0, 0, 1, 1)


def test_what_an_address_says_wrongly_falls_back_to_the_default() -> None:
    values = {"sort": "-nonsense", "page": "-1", "size": "1000000", "q": " or "}
    parsed = tables.parse_query(values, ("name", "lag"), "-lag")
    assert parsed == Query(text="or", sort="lag", is_downward=True, page=1, size=50)


def test_unknown_values_sort_last_in_either_direction() -> None:
    rows = [("a", None), ("b", 2), ("c", 1), ("d", None), ("e", 2)]
    for down, expected in ((False, "cbead"), (True, "becad")):
        chosen = list(rows)
        tables.order(chosen, lambda row: row[1], lambda row: row[0], down=down)
        assert "".join(row[0] for row in chosen) == expected
