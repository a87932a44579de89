"""FOLD: the schema rule, assignments, and what each step does to every attribute (docs/semantics.md, 4)."""

from __future__ import annotations

from keuka.expressions import CANDIDATE, LAST

from .cel import mistake, mistakes, operator


def test_steps_replace_what_the_second_input_has_and_keep_the_rest():
    fold = operator("FROM (SELECT *, 0 AS n FROM Stock) FOLD {TRUE, TRUE} Volumes")
    assert [(item.side, item.index) for item in fold.update] == [(CANDIDATE, 1), (CANDIDATE, 3), (CANDIDATE, 0), (CANDIDATE, 2), (LAST, 4)]


def test_an_assignment_wins_over_the_second_input():
    fold = operator("FROM Stock FOLD {TRUE, TRUE, greatest($.Price, $2.Price) AS Price} Stock")
    assert fold.update[1].op == "greatest"


def test_an_assigned_integer_becomes_the_double_it_is_assigned_to():
    fold = operator("FROM (SELECT *, 0.0 AS total FROM Stock) FOLD {TRUE, TRUE, 1 AS total} Stock")
    assert (fold.update[4].value, fold.update[4].type.value) == (1.0, "double")


def test_an_assigned_null_has_the_type_of_its_attribute():
    fold = operator("FROM Stock FOLD {TRUE, TRUE, NULL AS Name} Stock")
    assert (fold.update[0].value, fold.update[0].type.value) == (None, "string")


def test_assignments_of_another_type_are_refused():
    finding = mistake("FROM (SELECT *, 0 AS n FROM Stock) FOLD {TRUE, TRUE, $.n / 2 AS n} Stock")
    assert (finding.code, finding.span.text) == ("K205", "$.n / 2")
    assert "0.0" in finding.help[0]
    assert mistake("FROM Stock FOLD {TRUE, TRUE, 'x' AS Price} Stock").code == "K205"


def test_the_first_input_must_have_every_attribute_of_the_second():
    finding = mistake("FROM (SELECT Name, Volume AS Price FROM Stock) FOLD {TRUE, TRUE} Stock")
    assert (finding.code, finding.span.text) == ("K301", "Stock")
    assert finding.help[:2] == (
        "the first input lacks `Volume`, `ts`",
        "`Price` is an integer in the first input and a double in the second",
    )


def test_only_attributes_of_the_first_input_can_be_assigned():
    finding = mistake("FROM Stock FOLD {TRUE, TRUE, 1 AS cnt} Stock")
    assert (finding.code, finding.span.text) == ("K302", "cnt")
    assert "`(SELECT *, 0 AS cnt FROM ...)" in finding.help[-1]


def test_a_name_that_was_not_introduced_is_reported_once():
    fold = "(Stock FOLD {$.cnt < 9, TRUE, $.cnt + 1 AS cnt, $.n * 2.0 AS n} Stock)"
    findings = mistakes(f"SELECT Name, cnt, n_1 / n AS growth FROM FILTER {{cnt > 3}} {fold} NEXT {{cnt = $2.Volume}} Stock")
    assert [(f.code, f.span.text) for f in findings] == [("K302", "cnt"), ("K302", "n")]


def test_other_mistakes_are_found_beside_a_name_that_was_not_introduced():
    findings = mistakes("FROM Stock FOLD {$2.Name = $.Nam, TRUE, $.cnt + 1 AS cnt, 'x' AS Price} Stock")
    assert [f.code for f in findings] == ["K201", "K302", "K205"]


def test_an_attribute_is_assigned_once():
    findings = mistakes("FROM (SELECT *, 0 AS n FROM Stock) FOLD {TRUE, TRUE, 1 AS n, 2 AS n} Stock")
    assert [(f.code, f.message) for f in findings] == [("K302", "FOLD assigns to `n` 2 times")]


def test_both_conditions_may_use_dur_and_the_assignments_may_not():
    operator("FROM Stock FOLD {DUR < 10 min, DUR > 1 s} Stock")
    finding = mistake("FROM (SELECT *, 0 AS n FROM Stock) FOLD {TRUE, TRUE, DUR AS n} Stock")
    assert (finding.code, finding.span.text) == ("K211", "DUR")
