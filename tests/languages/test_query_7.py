"""Query 7 of the CESAR paper, from text to algebra, and the run that counts."""

from __future__ import annotations

from keuka.algebra.operators import walk
from keuka.languages.cel.lower import LANGUAGE

from .cel import operator, outline, parsed, program

QUERY_7 = """
SELECT Name, MaxPrice, MinPrice, Price AS FinalPrice
FROM FILTER {Price > 1.05 * MinPrice} (
       FILTER {DUR >= 10 min} (
         SELECT Name, Price_1 AS MaxPrice, Price AS MinPrice
         FROM FILTER {Volume > 10000} (Stock)
              FOLD {$2.Name = $.Name, $2.Price < $.Price} Stock)
       NEXT {$2.Name = $1.Name} Stock)
PUBLISH Rebound;
"""


def test_query_7_becomes_the_algebra_of_the_paper():
    found = program(QUERY_7)
    assert [name for name, _ in found.outputs] == ["Rebound"]
    assert (
        outline(found.outputs[0][1])
        == """\
map Name, MaxPrice, MinPrice, FinalPrice = Price
  filter Price > 1.05 * MinPrice
    next $2.Name = $1.Name
      filter DUR >= 10 min
        map Name, MaxPrice = Price_1, MinPrice = Price
          fold $2.Name = $.Name; $2.Price < $.Price; $2.Name, $2.Price, $2.Volume, $2.ts
            filter Volume > 10000
              Stock
            Stock
      Stock"""
    )


def test_a_run_that_counts():
    found = operator(
        "SELECT * FROM FILTER {cnt >= 10} ((SELECT *, 1 AS cnt FROM FILTER {Volume > 10000} (Stock)) "
        "FOLD {$2.Name = $.Name, $2.Price > $.Price, $.cnt + 1 AS cnt} Stock)"
    )
    assert " ".join(found.schema.names) == "Name_1 Price_1 Volume_1 ts_1 cnt_1 Name Price Volume ts cnt"
    assert (
        outline(found)
        == """\
filter cnt >= 10
  fold $2.Name = $.Name; $2.Price > $.Price; $2.Name, $2.Price, $2.Volume, $2.ts, $.cnt + 1
    map Name, Price, Volume, ts, cnt = 1
      filter Volume > 10000
        Stock
    Stock"""
    )


def test_inputs_and_parameters_are_known_without_schemas():
    file = parsed("FROM FILTER {a > :b} (S NEXT {x = :a OR y = :b} T) PUBLISH U; FROM U UNION S; FROM (FROM R PUBLISH Q) NEXT Q")
    assert LANGUAGE.inputs((file,)) == ("S", "T", "R")
    assert LANGUAGE.parameters((file,)) == ("b", "a")


def test_every_operator_points_at_its_text():
    texts = {type(node).__name__: node.span.text for node in walk(operator(QUERY_7)) if node.span is not None}
    assert texts["Source"] == "Stock"
    assert texts["Fold"].startswith("FILTER {Volume > 10000} (Stock)")
    assert texts["Fold"].endswith("$2.Price < $.Price} Stock")
    assert texts["Next"].endswith("NEXT {$2.Name = $1.Name} Stock")
