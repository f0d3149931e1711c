"""An unmodified p4runtime-sh, typed into as a person would, controls softswitch; frames show that it does."""

import itertools
import os
import queue
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import Rig

ROOT = Path(__file__).parents[2]
SHELL = ROOT / ".venv-p4sh" / "bin" / "python"
PROGRAM = Path(__file__).parent / "p4runtime"
ANSWER_TIMEOUT_S = 60.0
PROMPT = "P4Runtime sh >>> "

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the switch runs in a network namespace of its own"),
    pytest.mark.skipif(not SHELL.exists(), reason="no .venv-p4sh: make one and install requirements-p4sh.txt into it"),
]


class Shell:
    """A running p4runtime-sh; `type` returns what a command printed."""

    def __init__(self, address: str, run_dir: Path) -> None:
        config = f"{PROGRAM / 'everything.p4info.txtpb'},{PROGRAM / 'everything.json'}"
        self.process = subprocess.Popen(
            [SHELL, "-u", "-m", "p4runtime_sh", "--grpc-addr", address, "--device-id", "1", "--election-id", "0,1",
             "--config", config],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "IPYTHONDIR": str(run_dir / "ipython"), "TERM": "dumb"},
        )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._numbers = itertools.count(1)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def type(self, command: str) -> str:
        """Run one line and return its output."""
        marker = f"<{next(self._numbers)}>"
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\nprint('{marker}')\n")
        self.process.stdin.flush()
        printed = []
        while True:
            line = self._lines.get(timeout=ANSWER_TIMEOUT_S)
            assert line is not None, f"the shell ended: {printed}"
            text = line.replace(PROMPT, "")
            if text == marker:
                return "\n".join(part for part in printed if part)
            printed.append(text)

    def leave(self) -> int:
        """Type exit; returns the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.write("exit\n")
        self.process.stdin.close()
        return self.process.wait(timeout=ANSWER_TIMEOUT_S)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig("soft", tmp_path, ports=2) as running:
        yield running


@pytest.fixture
def shell(rig: Rig, tmp_path: Path) -> Iterator[Shell]:
    it = Shell(rig.address, tmp_path)
    yield it
    it.process.kill()
    it.process.wait()


def frame(dst: int, ethertype: int = 0x1234) -> bytes:
    return dst.to_bytes(6, "big") + bytes(6) + ethertype.to_bytes(2, "big") + b"payload".ljust(50, b".")


def test_a_session_from_the_first_entry_to_the_last_packet(rig: Rig, shell: Shell) -> None:
    shell.type('te = table_entry["IngressImpl.exact_table"](action="IngressImpl.count_exact")')
    shell.type('te.match["hdr.ethernet.dst"] = "00:00:00:00:00:0a"; te.action["port"] = "2"')
    assert shell.type("te.insert()") == ""
    read = 'table_entry["IngressImpl.exact_table"].read(lambda e: print("entry", e.action.action_name, e.priority))'
    assert "entry IngressImpl.count_exact 0" in shell.type(read)

    rig.send(1, frame(0x0A))
    assert rig.receive(2) == frame(0x0A)
    counted = shell.type(
        'c = counter_entry["IngressImpl.port_counter"]; c.index = 1; c.read(lambda e: print(e.packet_count))'
    )
    assert counted.splitlines()[-1] == "1"
    direct = 'd = direct_counter_entry["IngressImpl.exact_counter"]; d.table_entry.match["hdr.ethernet.dst"] = "10"'
    shell.type(direct)
    assert shell.type("d.read(lambda e: print(e.packet_count, e.byte_count))").splitlines()[-1] == "1 64"

    shell.type('p = packet_out(payload=b"out" * 20, egress_port="1", through_tables="0", _pad="0"); p.send()')
    assert rig.receive(1) == b"out" * 20

    shell.type('cpu = table_entry["IngressImpl.exact_table"](action="IngressImpl.to_cpu"); cpu.action["reason"] = "9"')
    shell.type('cpu.match["hdr.ethernet.dst"] = "00:00:00:00:00:0b"; cpu.insert()')
    shell.type("arrivals = packet_in")
    rig.send(2, frame(0x0B))
    shell.type(f"got = arrivals.packet_in_queue.get(timeout={ANSWER_TIMEOUT_S / 2})")
    assert (
        shell.type("print([m.value.hex() for m in got.packet.metadata], got.packet.payload[-3:])")
        == "['02', '09'] b'...'"
    )

    assert shell.type("te.delete()") == ""
    assert "NOT_FOUND" in shell.type("te.delete()")
    assert "entry IngressImpl.count_exact" not in shell.type(read)
    assert shell.leave() == 0


def test_groups_replication_and_meters_are_programmed_from_the_shell(rig: Rig, shell: Shell) -> None:
    shell.type('m = action_profile_member["IngressImpl.selector"](member_id=1, action="IngressImpl.forward")')
    assert shell.type('m.action["port"] = "2"; m.insert()').count("Error") == 0
    shell.type('g = action_profile_group["IngressImpl.selector"](group_id=1); g.add(1)')
    assert "Error" not in shell.type("g.insert()")
    assert "group_id: 1" in shell.type('action_profile_group["IngressImpl.selector"].read(lambda e: print(e))')
    shell.type("mc = multicast_group_entry(1).add(1, 1).add(2, 2)")
    assert "Error" not in shell.type("mc.insert()")
    assert "replicas" in shell.type("multicast_group_entry(1).read(lambda e: print(e))")
    shell.type(
        'fan = table_entry["IngressImpl.exact_table"](action="IngressImpl.multicast"); fan.action["group"] = "1"'
    )
    shell.type('fan.match["hdr.ethernet.dst"] = "00:00:00:00:00:0c"; fan.insert()')
    rig.send(1, frame(0x0C))
    assert (rig.receive(1), rig.receive(2)) == (frame(0x0C), frame(0x0C))
    shell.type(
        'me = meter_entry["IngressImpl.port_meter"]; me.index = 1; me.cir = 1; me.cburst = 2; me.pir = 3; me.pburst = 4'
    )
    assert "Error" not in shell.type("me.modify()")
    assert "pburst: 4" in shell.type("me.read(lambda e: print(e))")
    assert shell.leave() == 0
