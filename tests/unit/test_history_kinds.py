"""Kinds of records of earlier versions are read under their present names."""

from mrclab.lab import history


def test_a_history_of_an_earlier_version_has_the_present_kinds():
    line = '{"t": 1.5, "node": "lab", "kind": "faults.healed", "verified": false, "problems": [], "entries": []}'
    (record,) = history.History(history.parse([line])).of("faults.cleared")
    assert (record.t, record["verified"]) == (1.5, False)
