"""Output of the operator's commands for answers of the controller that report trouble."""

import pytest
from rich.console import Console

from mrclab.lab.command.display import views


def shown(renderable):
    console = Console(width=120, no_color=True, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


STATUS = {
    "state": "failed",
    "seconds": None,
    "message": "t1-p1-1: 2 of 14 updates were refused: insert [x]",
    "switches_ready": 1,
    "switches": 3,
    "links_verified": 2,
    "links": 4,
    "wrong_entries": 2,
    "entries_unread": {"t0-p1-1": "does not answer"},
    "agents_silent": {"h4": "is stopped (process 7, state T)"},
    "version": 4,
    "by_switch": {
        "t0-p1-1": {"state": "ready", "silent": True, "error": "is stopped (process 9, state T)"},
        "t1-p1-1": {"state": "failed", "silent": False, "error": "x"},
        "t1-p1-2": {"state": "connecting", "silent": False, "error": ""},
    },
    "agents": {"h1": 4, "h2": 3, "h3": 0, "h4": 0},
    "denied": [
        {"element": "h1-p2/t0-p2-1", "kind": "nic-link", "source": "clustermapper", "reason": "5% of probes [lost]"}
    ],
}


def test_status_names_every_part_that_is_not_well():
    text = shown(views.status(STATUS))
    assert "fabric    failed: t1-p1-1: 2 of 14 updates were refused: insert [x]" in text
    assert "1 of 3 ready: t1-p1-1 failed, t1-p1-2 connecting, t0-p1-1 is stopped (process 9, state T)" in text
    assert "2 wrong; `mrclab precheck` names them where they could be read; not read: t0-p1-1" in text
    agents = "h4 is stopped (process 7, state T), h3 not there, h2 still has version 3"
    assert f"2 of 4 there, node configs of version 4: {agents}" in " ".join(text.split())
    assert "h1-p2/t0-p2-1   nic-link   clustermapper   5% of probes [lost]" in text


@pytest.mark.parametrize(("state", "first"), [("verified", "verified in 0.3 s"), ("verifying", "verifying")])
def test_how_long_verification_took_is_said_of_what_is_verified(state, first):
    line = shown(views.status({**STATUS, "state": state, "seconds": 0.3, "message": ""})).splitlines()[0]
    assert line.split(maxsplit=1)[1].strip() == first


def test_a_long_list_of_names_ends_in_a_number():
    many = {f"t1-p1-{number}": {"state": "connecting", "silent": False, "error": ""} for number in range(1, 10)}
    assert "t1-p1-6 connecting and 3 more" in shown(views.status({**STATUS, "by_switch": many})).replace("\n", " ")


def test_the_map_tells_verdict_rivals_and_cables_that_nobody_probed():
    verdict = {"element": "h1-p1/t0-p1-1", "state": "down", "rate": 1.0, "alternatives": ["t0-p1-1"]}
    links = {
        "h1-p1/t0-p1-1": {"state": "down", "probes": 8, "loss": 1.0, "rtt": None},
        "h2-p1/t0-p1-2": {"state": "unknown", "probes": 0, "loss": None, "rtt": None},
        "t0-p1-1/t1-p1-1": {"state": "up", "probes": 8, "loss": 0.0, "rtt": 0.0123},
    }
    text = shown(views.link_map({"verdicts": [verdict], "links": links, "reports": 5, "rejected": 1, "cycle": 0.5}))
    assert "down: h1-p1/t0-p1-1 loses 100% of probes (or t0-p1-1, which carry the same probes)" in text
    assert "h1-p1/t0-p1-1     down      100.0%         –" in text
    assert "h2-p1/t0-p1-2     unknown        –         –" in text
    assert "t0-p1-1/t1-p1-1   up          0.0%   12.3 ms" in text
    assert "5 reports, one per host every 0.5 s, 1 rejected" in text


def test_a_failed_precheck_and_an_incomplete_drain_say_so():
    told = {"ok": False, "checks": [{"name": "h1", "ok": False, "detail": "ports down: h1-p2"}]}
    assert shown(views.precheck(told)).splitlines() == ["no  h1  ports down: h1-p2", "a job should not start"]
    drain = {"switch": "t1-p1-1", "drained": False, "seconds": 30.0, "unread": "", "unnotified": {}}
    text = views.drained(drain)
    assert text == "t1-p1-1 is denied but still carried packets of QPs after 30.0 s; ask again before it is rebooted"
    text = views.drained({**drain, "unread": "does not answer"})
    assert text == "t1-p1-1 is denied; whether packets of QPs still cross it could not be read: it does not answer"


def test_a_denial_names_the_hosts_that_do_not_know_of_it():
    told = {"element": "t1-p1-1", "changed": True, "version": 3, "unnotified": {}}
    assert views.denied(told).endswith("say so to every host")
    text = views.denied({**told, "unnotified": {"h1": "is stopped"}})
    assert text.endswith("say so to every host but these: the agent of h1 is stopped")
