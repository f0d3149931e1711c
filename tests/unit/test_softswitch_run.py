"""Other threads at the data plane: at once while the loop sleeps, one at a time; what is due is never slept over."""

import threading
import time

from p4runtime_client import Client
from p4runtime_fixtures import CPU_PORT, NAMES, Running, primary, running

__all__ = ["primary", "running"]

TIMEOUT_S = 60  # only a failing test waits that long
FRAME = bytes.fromhex("0000000000ff0000000000551234") + bytes(50)


def test_while_the_loop_sleeps_a_function_runs_where_it_was_asked_for(running: Running) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while running.switch.run(threading.get_ident) != threading.get_ident():  # it may still be on its way to sleep
        assert time.monotonic() < deadline


def test_while_one_thread_is_at_the_data_plane_neither_another_nor_the_loop_is(running: Running) -> None:
    inside, leave, done = threading.Event(), threading.Event(), threading.Event()
    switch = running.switch

    def stay() -> None:
        inside.set()
        assert leave.wait(TIMEOUT_S)

    one = threading.Thread(target=lambda: switch.run(stay))
    other = threading.Thread(target=lambda: switch.run(done.set))
    one.start()
    assert inside.wait(TIMEOUT_S)
    other.start()
    assert not done.wait(0.05)
    leave.set()
    assert done.wait(TIMEOUT_S)
    one.join()
    other.join()


def test_a_function_may_run_another_and_what_it_raises_is_raised(running: Running) -> None:
    switch = running.switch
    assert switch.run(lambda: switch.run(lambda: 3) + switch.run(lambda: 4)) == 7
    for _ in range(2):  # the first leaves nothing locked
        try:
            switch.run(lambda: 1 // 0)
        except ZeroDivisionError:
            continue
        raise AssertionError("the error was lost")


def test_what_a_function_makes_due_wakes_the_loop(primary: Client, running: Running) -> None:
    primary.insert(NAMES.entry("exact_table", {"hdr.ethernet.dst": 0xFF}, NAMES.action("to_cpu", 1)))
    running.switch.run(lambda: running.switch.set_queue_rate(20, CPU_PORT))

    def inject() -> None:
        for _ in range(3):
            running.switch.inject(2, FRAME)

    running.switch.run(inject)
    assert primary.stream is not None
    assert [primary.stream.next().packet.payload for _ in range(3)] == [FRAME] * 3
