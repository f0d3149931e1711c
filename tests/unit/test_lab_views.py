"""What the operator's commands print, from answers of the controller that are not all well."""

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
    "version": 4,
    "by_switch": {
        "t0-p1-1": {"state": "ready", "silent": True, "error": ""},
        "t1-p1-1": {"state": "failed", "silent": False, "error": "x"},
        "t1-p1-2": {"state": "connecting", "silent": False, "error": ""},
    },
    "agents": {"h1": 4, "h2": 3, "h3": 0},
    "denied": [
        {"element": "h1-p2/t0-p2-1", "kind": "nic-link", "source": "clustermapper", "reason": "5% of probes [lost]"}
    ],
}


def test_status_names_every_part_that_is_not_well():
    text = shown(views.status(STATUS))
    assert "fabric    failed: t1-p1-1: 2 of 14 updates were refused: insert [x]" in text
    assert "1 of 3 ready: t1-p1-1 failed, t1-p1-2 connecting, t0-p1-1 silent" in text
    assert "2 wrong; `mrclab precheck` names them" in text
    assert "2 of 3 there, node configs of version 4: h3 not there, h2 still has version 3" in text
    assert "h1-p2/t0-p2-1   nic-link   clustermapper   5% of probes [lost]" in text


def test_a_long_list_of_names_ends_in_a_number():
    many = {f"t1-p1-{number}": {"state": "connecting", "silent": False, "error": ""} for number in range(1, 10)}
    assert "t1-p1-6 connecting and 3 more" in shown(views.status({**STATUS, "by_switch": many})).replace("\n", " ")


def test_the_map_tells_verdict_rivals_and_cables_that_nobody_probed():
    verdict = {"element": "h1-p1/t0-p1-1", "state": "down", "rate": 1.0, "rivals": ["t0-p1-1"]}
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
    text = views.drained({"switch": "t1-p1-1", "drained": False, "seconds": 30.0})
    assert text == "t1-p1-1 is denied but still carried packets of QPs after 30.0 s; ask again before it is rebooted"
