"""Updates that turn the entries of a switch into the intended ones."""

from hypothesis import given
from hypothesis import strategies as st

from mrclab.controller.provisioning.intent import EntryAction, IntendedEntry
from mrclab.controller.provisioning.reconcile import Change, UpdateKind, changes, same


def route(key: int, *ports: int, one_shot: bool = False) -> IntendedEntry:
    return IntendedEntry(
        "usid_fib", (("locator_usid", key),), tuple(EntryAction("forward", (("port", p),)) for p in ports), one_shot
    )


def test_only_the_difference_is_written_and_deletes_come_last() -> None:
    wanted = [route(1, 1), route(2, 2), route(3, 3)]
    found = [route(9, 9), route(1, 1), route(2, 7)]
    assert changes(wanted, found) == (
        Change(UpdateKind.MODIFY, route(2, 2), route(2, 7)),
        Change(UpdateKind.INSERT, route(3, 3)),
        Change(UpdateKind.DELETE, route(9, 9)),
    )


def test_in_a_shared_table_the_entries_of_others_are_left_alone() -> None:
    mine, other = (
        IntendedEntry("ev_watch", (("hdr.udp.src_port", port),), (EntryAction("count_ev"),)) for port in (1, 2)
    )
    assert changes([mine], [other]) == (Change(UpdateKind.INSERT, mine),)
    assert changes([mine], [mine, other]) == ()


def test_the_order_of_a_selectors_members_and_of_parameters_does_not_count() -> None:
    assert same(route(1, 3, 4, one_shot=True), route(1, 4, 3, one_shot=True))
    assert not same(route(1, 3, 4, one_shot=True), route(1, 3, 3, one_shot=True))
    one = IntendedEntry("t", (), (EntryAction("a", (("x", 1), ("y", 2))),))
    other = IntendedEntry("t", (), (EntryAction("a", (("y", 2), ("x", 1))),))
    assert same(one, other)


tables = st.dictionaries(st.integers(0, 20), st.integers(1, 4), max_size=15)


@given(tables, tables)
def test_writing_the_changes_gives_what_is_wanted_from_any_start(want: dict[int, int], have: dict[int, int]) -> None:
    state = {entry.key: entry for entry in (route(k, p) for k, p in have.items())}
    wanted = [route(k, p) for k, p in want.items()]
    for change in changes(wanted, list(state.values())):
        present = change.entry.key in state
        assert present == (change.op is not UpdateKind.INSERT)
        if change.op is UpdateKind.DELETE:
            del state[change.entry.key]
        else:
            state[change.entry.key] = change.entry
    assert set(state.values()) == set(wanted)
    assert changes(wanted, list(state.values())) == ()
