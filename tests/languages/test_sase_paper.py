"""The queries of the SASE paper (section 2), with the signs our tokens have for its mathematical ones."""

from __future__ import annotations

from .sase import matches, where

SHOPLIFTING = """
SEQ(SHELF-READING, !COUNTER-READING, EXIT-READING)
WHERE [id]
WITHIN 3 hours
"""
MISPLACED = """
SEQ(SHELF-READING, SHELF-READING, !ANY(COUNTER-READING, SHELF-READING))
WHERE [id] AND $x1.shelf_id <> $x2.shelf_id
      AND $x1.shelf_id = $x3.shelf_id
WITHIN 1 hour
"""
OVERDOSE = """
SEQ(MEDICINETAKEN, MEDICINETAKEN)
WHERE [name="John"] AND [medicine="Antibiotics"] AND ($x1.amount + $x2.amount) > 1000
WITHIN 4 hours
"""


def test_filtering_one_type():
    assert matches("SHELF-READING (shelf_id = 1 AND id > 3)", SHELF_READING="1:4,1 2:4,2 3:2,1") == [(4, 1, 1, 1)]


def test_shoplifting():
    assert where(SHOPLIFTING) == [["$x1.id = $x3.id", "$x1.id = $x2.id; $x2.id = $x3.id"]]
    found = matches(SHOPLIFTING, SHELF_READING="1:7,1 2:8,1 3:9,1", COUNTER_READING="5:8 6:5", EXIT_READING="10:7 11:8 10803:9")
    assert found == [(7, 1, 1, 7, 10, 10)]


def test_misplaced_inventory():
    assert where(MISPLACED) == [
        [
            "$x1.id = $x2.id; $x1.shelf_id <> $x2.shelf_id",
            "$x1.id = $x3.id; $x2.id = $x3.id; NOT ($x3.#type IN (1)) OR $x1.shelf_id = $x3.shelf_id",
        ]
    ]
    # Item 7 stays on shelf 2, 8 goes back to shelf 1, 9 is bought; 6 is read on shelf 2 again, which is no way back.
    shelves = "1:6,1 1:7,1 1:8,1 1:9,1 2:6,2 2:7,2 2:8,2 2:9,2 3:8,1 5:6,2"
    found = matches(MISPLACED + "RETURN $x1.id, $x2.shelf_id", SHELF_READING=shelves, COUNTER_READING="4:9")
    assert sorted(found) == [(6, 2, 3600), (6, 2, 3600), (7, 2, 3600), (8, 1, 3601)]


def test_overdose():
    taken = "0:John,Antibiotics,600 60:Ann,Antibiotics,600 120:John,Aspirin,600 3600:John,Antibiotics,500 14400:John,Antibiotics,900"
    found = matches(OVERDOSE + "RETURN $x1.amount, $x2.amount", MEDICINETAKEN=taken)
    assert found == [(600, 500, 3600), (500, 900, 14400)]
