"""What is no SQL92 filter: refused with the place, the reason and a remedy."""

import pytest

from engine.delivery.sql import compile_sql
from engine.errors import Invalid

# Expression, the character that is pointed at (from 1), a word of the remedy.
REFUSED = [
    # Nothing equals NULL.
    ("a = NULL", 3, "IS NULL"),
    ("a <> NULL", 3, "IS NOT NULL"),
    ("NULL = a", 6, "IS NULL"),
    ("a = (NULL)", 3, "IS NULL"),
    # Only numbers have an order.
    ("a > 'x'", 5, "a > 5"),
    ("a >= TRUE", 6, "a > 5"),
    ("a < NULL", 5, "a > 5"),
    ("'x' <= a", 1, "a > 5"),
    ("FALSE < a", 1, "a > 5"),
    ("(a = 1) > 0", 1, "a > 5"),
    ("a > (b = 1)", 5, "a > 5"),
    ("a BETWEEN '1' AND '2'", 11, "a > 5"),
    ("a BETWEEN 1 AND '2'", 17, "a > 5"),
    ("a NOT BETWEEN TRUE AND FALSE", 15, "a > 5"),
    ("a BETWEEN NULL AND 5", 11, "a > 5"),
    ("'x' BETWEEN 1 AND 2", 1, "a > 5"),
    ("a BETWEEN 5 AND 1", 17, "smaller"),
    ("a BETWEEN 5 1", 13, "BETWEEN 1 AND 9"),
    # IN and the searches take texts, and IN a property.
    ("a IN (1)", 7, "IN ('a', 'b')"),
    ("a IN ()", 7, "IN ('a', 'b')"),
    ("a IN ('x',)", 11, "IN ('a', 'b')"),
    ("a IN ('x' 'y')", 11, "IN ('a', 'b')"),
    ("a IN 'x'", 6, "IN ('a', 'b')"),
    ("a IN (b)", 7, "IN ('a', 'b')"),
    ("'x' IN ('x')", 1, "name IN"),
    ("a CONTAINS b", 12, "CONTAINS 'x'"),
    ("a STARTSWITH 5", 14, "STARTSWITH 'x'"),
    ("a NOT ENDSWITH", 15, "ENDSWITH 'x'"),
    ("5 CONTAINS 'x'", 1, "property"),
    ("(a = 1) ENDSWITH 'x'", 1, "property"),
    # What is there is neither true nor false, or not to be compared.
    ("a", 1, "paid = TRUE"),
    ("'x'", 1, "compare it"),
    ("1", 1, "compare it"),
    ("a AND b = 1", 1, "compare it"),
    ("b = 1 OR a", 10, "compare it"),
    ("1 = TRUE", 5, "like with like"),
    ("(a = 'x') <> 5", 14, "like with like"),
    # NOT and chains without parentheses.
    ("NOT a = 'x'", 5, "parentheses"),
    ("NOT a IN ('x')", 5, "parentheses"),
    ("NOT (a = 1) = TRUE", 13, "NOT (a = 'x')"),
    ("NOT (a > 1) IS NULL", 13, "NOT (a = 'x')"),
    ("a = b = c", 7, "parentheses"),
    ("1 < a < 5", 7, "parentheses"),
    ("a IS NULL IS NULL", 11, "parentheses"),
    # There is no arithmetic and no LIKE.
    ("a + 1 > 5", 3, "arithmetic"),
    ("a * 2 > 5", 3, "arithmetic"),
    ("a / 2 > 5", 3, "arithmetic"),
    ("-a > 5", 2, "arithmetic"),
    ("a = -'x'", 6, "arithmetic"),
    ("a = -TRUE", 6, "arithmetic"),
    ("content-type = 'x'", 8, "letters"),
    ("a LIKE 'x%'", 3, "CONTAINS"),
    ("(a LIKE 'x%')", 4, "CONTAINS"),
    # Numbers.
    ("a > 0.0", 5, "integer 0"),
    ("a > 1e-400", 5, "integer 0"),
    ("a > 1e400", 5, "integer 0"),
    ("a > 9223372036854775808", 5, "decimal"),
    ("a > -9223372036854775808", 6, "decimal"),
    ("a > 007", 5, "write it as 7"),
    ("a > 7.5l", 5, "write it as 7"),
    ("a > 12abc", 7, "a > 5"),
    ("a > 1.2.3", 8, "a > 5"),
    ("a > 0x10", 6, "a > 5"),
    ("a > 1e", 6, "a > 5"),
    # Signs of other languages, and what was not finished.
    ("a != 1", 3, "<>"),
    ("a == 1", 4, "a > 5"),
    ('a = "x"', 5, "single quotes"),
    ("`a` = 1", 1, "without quotes"),
    ("a = 1 && b = 2", 7, "AND"),
    ("a = 1 || b = 2", 7, "OR"),
    ("a % 2 = 1", 3, "arithmetic"),
    ("a = 1;", 6, "leave it out"),
    ("ä = 1", 1, "letters"),
    ("a.b = 1", 2, "letters"),
    ("a\xa0= 1", 2, "letters"),
    ("a = 'x", 5, "close the text"),
    ("a = 'x''", 5, "close the text"),
    ("a = 1 /* b", 7, "close the comment"),
    ("", 1, '"*"'),
    ("  -- nothing\n", 14, '"*"'),
    ("a =", 4, '"*"'),
    ("a = 1 AND", 10, '"*"'),
    ("AND a = 1", 1, "a > 5"),
    ("(a = 1", 1, "add a )"),
    ("(a = 1 b", 8, "a > 5"),
    ("a = 1)", 6, "a > 5"),
    ("()", 2, "a > 5"),
    ("a IS 5", 6, "IS NULL"),
    ("a IS NOT TRUE", 10, "IS NULL"),
    ("a NOT = 1", 7, "NOT IN"),
    ("a 5", 3, "a > 5"),
    (", a = 1", 1, "a > 5"),
]


@pytest.mark.parametrize(("text", "character", "remedy"), REFUSED)
def test_a_wrong_expression_is_refused_with_place_and_remedy(
    text: str, character: int, remedy: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        compile_sql(text)
    assert refusal.value.field == "filter"
    assert f"at character {character} of " in refusal.value.detail
    assert remedy in refusal.value.remedy


def test_an_expression_of_4096_characters_is_the_longest() -> None:
    text = "a = 1" + " " * 4091
    assert compile_sql(text).matches({"a": "1"})
    with pytest.raises(Invalid, match="at most 4096 characters, this one 4097"):
        compile_sql(text + " ")


def test_in_takes_256_texts() -> None:
    texts = [f"'{number}'" for number in range(257)]
    assert compile_sql(f"a IN ({','.join(texts[:256])})").matches({"a": "255"})
    with pytest.raises(Invalid, match="at most 256 texts, not 257"):
        compile_sql(f"a IN ({','.join(texts)})")


@pytest.mark.parametrize("wrap", ["({})", "NOT ({})", "({} OR b = 1 AND b = 2)", "NOT {}", "+{}"])
def test_nesting_is_bounded_and_its_deepest_still_runs_far_down_the_stack(wrap: str) -> None:
    def nested(levels: int) -> str:
        text = "(a = 1)"
        while text.count("(") + text.count("NOT") + text.count("+") < levels:
            text = wrap.format(text)
        return text

    def at_depth(frames: int) -> bool:
        if frames:
            return at_depth(frames - 1)
        return compile_sql(nested(63)).matches({"a": "1", "b": "1"}) in (True, False)

    assert at_depth(200)
    with pytest.raises(Invalid, match="nested deeper than 64 levels"):
        compile_sql(nested(65))


def test_64_levels_are_the_deepest() -> None:
    assert compile_sql("(" * 64 + "a = 1" + ")" * 64).matches({"a": "1"})
    with pytest.raises(Invalid, match="at character 65 of"):
        compile_sql("(" * 65 + "a = 1" + ")" * 65)


def test_a_long_chain_is_not_deep() -> None:
    chain = " OR ".join(f"a={number}" for number in range(400))
    assert compile_sql(chain).matches({"a": "399"})
    beside = " OR ".join(f"(a={number})" for number in range(100))
    assert compile_sql(beside).matches({"a": "99"})


def test_an_expression_is_compiled_once() -> None:
    assert compile_sql("a = 'once'") is compile_sql("a = 'once'")
