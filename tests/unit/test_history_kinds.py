"""Records of earlier versions are read under their present names."""

import json

import pytest

from mrclab.events import codec
from mrclab.events.controller import ControllerHeartbeat
from mrclab.lab import history


@pytest.mark.parametrize(
    ("old", "fields", "new", "changed"),
    [
        ("faults.healed", {"verified": False, "problems": [], "entries": []}, "faults.cleared", {}),
        ("pulse", {"late": 0.5, "at": 1.0, "cpu": 0.1}, "heartbeat", {}),
        ("agent.told", {"host": "h1", "version": 2}, "agent.updated", {}),
        ("verdict", {"rivals": ["t0-p1-1"]}, "verdict", {"alternatives": ["t0-p1-1"]}),
    ],
)
def test_a_history_of_an_earlier_version_has_the_present_names(old, fields, new, changed):
    line = json.dumps({"t": 1.5, "node": "controller", "kind": old, **fields})
    (record,) = history.History(history.parse([line])).of(new)
    assert (record.t, record.data) == (1.5, changed or fields)


def test_a_line_of_an_earlier_version_is_an_event_of_the_present_class():
    line = '{"t": 1.5, "node": "controller", "kind": "pulse", "late": 0.5, "at": 1.0, "cpu": 0.1}'
    assert codec.decode(line).event == ControllerHeartbeat(late=0.5, at=1.0, cpu=0.1)
