"""One packet in P4 switches, as the page shows it: hops, tables, a changed entry, a controller of one's own."""

import json

import pytest

from mrclab import HOME
from mrclab.lab.p4 import walk
from mrclab.lab.ui.browser.p4tab import P4Tab
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

LESSONS = HOME / "docs" / "lessons"
ANSWER = """
own = sh.TableEntry("MrcIngress.my_usid")(action="MrcIngress.shift_usid")
own.match["locator_usid"] = "0xfcbbbb001102"
own.insert()
for port, usid, peer in (("1", "0xfcbbbb002101", "02:0a:01:01:00:04"), ("2", "0xfcbbbb002102", "02:0a:01:02:00:04")):
    entry = sh.TableEntry("MrcIngress.usid_fib")(action="MrcIngress.forward")
    entry.match["locator_usid"] = usid
    entry.action["port"] = port
    entry.action["src_mac"] = f"02:0b:01:02:00:0{port}"
    entry.action["dst_mac"] = peer
    entry.insert()
sh.teardown()
"""
SKELETON = (LESSONS / "03-p4runtime" / "controller.py").read_text(encoding="utf-8")
SHIFT = (LESSONS / "02-shift" / "shift.p4").read_text(encoding="utf-8")
RIGHT = SHIFT.replace("= hdr.ipv6.dst;", "= hdr.ipv6.dst[127:96] ++ hdr.ipv6.dst[79:0] ++ 16w0;")
WAY = {"from": "h1", "to": "h3", "plane": 1, "uplink": 2}


@pytest.fixture
def tab():
    made = P4Tab()

    def ask(path, **body):
        return json.loads(made.request(f"api/{path}", json.dumps(body)))

    return ask


def nodes(told):
    return [hop["node"] for hop in told["hops"]]


def test_a_packet_goes_the_way_that_its_address_names_and_each_hop_tells_why(tab):
    hops = tab("p4/walk", **WAY)["hops"]
    assert nodes({"hops": hops}) == ["t0-p1-1", "t1-p1-2", "t0-p1-2", "h3"]
    first = hops[0]
    assert first["headers"]["ipv6"]["dst"] == "fcbb:bb00:2101:1102:2102:3101::"
    assert first["after"]["ipv6"]["dst"] == "fcbb:bb00:1102:2102:3101::"
    assert (first["leaves"], first["to"], first["after"]["ipv6"]["hop_limit"]) == (4, "t1-p1-2", "63")
    met = {each["table"]: each for each in first["tables"]}
    assert met["usid_fib"]["hit"]
    assert met["usid_fib"]["entry"] == "fcbb:bb00:1102"
    assert met["usid_fib"]["action"].startswith("forward(port=4,")
    assert not {each["table"]: each for each in hops[1]["tables"]}["sources"]["hit"]


def test_a_changed_entry_sends_the_packet_elsewhere_and_a_deleted_one_drops_it(tab):
    params = {"port": "1", "src_mac": "02:0b:01:02:00:01", "dst_mac": "02:0a:01:01:00:04"}
    entry = {"switch": "t1-p1-2", "table": "usid_fib", "key": "fcbb:bb00:2102"}
    assert "forward(port=1" in tab("p4/write", kind="modify", action="forward", params=params, **entry)["message"]
    told = tab("p4/walk", **WAY)
    assert nodes(told) == ["t0-p1-1", "t1-p1-2", "t0-p1-1"]
    assert "uSID in front is not this switch's" in told["hops"][-1]["dropped"]
    tab("p4/write", kind="delete", **entry)
    told = tab("p4/walk", **WAY)
    assert nodes(told) == ["t0-p1-1", "t1-p1-2"]
    assert "usid_fib has no entry" in told["hops"][-1]["dropped"]
    tab("p4/reset")
    assert nodes(tab("p4/walk", **WAY))[-1] == "h3"


def test_a_long_queue_trims_the_packet_and_moves_it_to_another_class(tab):
    tab("p4/register", switch="t0-p1-1", name="queue_depths", index=4, value=40)
    first = tab("p4/walk", **WAY)["hops"][0]
    assert first["trimmed"]
    assert (first["headers"]["ipv6"]["dscp"], first["after"]["ipv6"]["dscp"]) == ("4", "12")
    assert {"name": "trims", "index": 4, "now": 1} in first["counters"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"table": "nothing"}, "the program has no table nothing"),
        ({"key": "house"}, "'house' is not a value"),
        ({"key": "0x1ffffffffffff"}, "does not fit 48 bits"),
        ({"action": "jump"}, "usid_fib has no action 'jump'; it has forward, drop"),
        ({"params": {"port": "1"}}, "forward needs src_mac, dst_mac"),
        ({"kind": "insert"}, "the switch refuses it: ALREADY_EXISTS"),
        ({"kind": "delete", "key": "fcbb:bb00:9"}, "the switch refuses it: NOT_FOUND"),
        ({"switch": "t9"}, "t9"),
    ],
)
def test_a_mistake_in_an_entry_is_told(tab, change, said):
    params = {"port": "1", "src_mac": "02:0b:01:02:00:01", "dst_mac": "02:0a:01:01:00:04"}
    entry = {"switch": "t1-p1-2", "table": "usid_fib", "key": "fcbb:bb00:2102", "action": "forward"}
    assert said in tab("p4/write", **{**entry, "kind": "modify", "params": params, **change})["error"]


def test_the_learners_action_runs_in_all_switches(tab):
    tab("p4/program", text=SHIFT)
    told = tab("p4/walk", **WAY)
    assert nodes(told) == ["t0-p1-1"]  # nothing moved: the next uSID is its own
    tab("p4/program", text=RIGHT)
    assert nodes(tab("p4/walk", **WAY))[-1] == "h3"
    assert (
        "is not allowed in an expression" in tab("p4/program", text=SHIFT.replace("= hdr.ipv6.dst;", "= {};"))["error"]
    )


def test_lesson_2_and_3_are_graded_as_in_a_terminal_and_wrong_answers_refused(tab):
    assert not tab("grade", number=2, text=SHIFT)["done"]
    assert tab("grade", number=2, text=RIGHT)["done"]
    begun = tab("grade", number=3, text=SKELETON)
    assert [check["ok"] for check in begun["checks"]] == [True, False, False, True]
    whole = SKELETON.replace("sh.teardown()\n", ANSWER)
    assert tab("grade", number=3, text=whole)["done"]
    wrong = tab("grade", number=3, text=whole.replace('"0xfcbbbb002102", "02', '"0xfcbbbb002103", "02'))
    assert [check["ok"] for check in wrong["checks"]] == [True, False, True, True]


def test_a_controllers_mistake_is_told_with_its_line_and_a_program_that_is_missing_too(tab):
    late = SKELETON.replace("sh.teardown()", 'sh.TableEntry("MrcIngress.nothing")')
    told = tab("grade", number=3, text=late)["checks"][0]["missing"]
    assert told.startswith("line 13: the program has no table MrcIngress.nothing; it has ")
    assert "SyntaxError" in tab("grade", number=3, text="while")["checks"][0]["missing"]
    empty = tab("grade", number=3, text="import p4runtime_sh.shell as sh\nsh.setup(device_id=1)\n")
    assert empty["checks"][0]["missing"] == "hand `config` to sh.setup"
    told = tab("p4/controller", switch="t1-p1-2", text=SKELETON)
    assert told == {"printed": "", "failure": "", "programmed": True}
    assert nodes(tab("p4/walk", **WAY)) == ["t0-p1-1", "t1-p1-2"]  # it has no entries


def test_headers_are_read_as_they_were_written():
    fabric = Fabric(FabricSpec())
    found = walk.headers(walk.packet(fabric, "h1", "h2", 3, 0))
    assert found["ipv6"]["dst"] == "fcbb:bb00:2301:3302::"
    assert list(found) == ["ethernet", "ipv6", "inner_ipv6", "udp", "bth"]
    assert (found["udp"]["dst_port"], found["ipv6"]["payload_length"]) == ("4791", "124")
