"""The switch as `runtime_api.RuntimeApi`: a thin layer that finds the object named and asks it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mrclab.softswitch.runtime_api import (
    CloneSession,
    CounterValue,
    DigestCallback,
    DigestConfig,
    EntryAction,
    InvalidRequestError,
    MatchKey,
    MeterConfig,
    NotFoundError,
    ProfileGroup,
    ProfileMember,
    Replica,
    TableEntry,
)
from mrclab.softswitch.switch import Switch

if TYPE_CHECKING:
    from mrclab.softswitch.tables import Profile


class RuntimeSwitch(Switch):
    """A switch with the whole of `RuntimeApi`. See there for what each method does and raises."""

    # -- tables -------------------------------------------------------------------------------------------------------

    def table_insert(self, table: str, entry: TableEntry) -> None:
        """Add an entry."""
        self.table(table).insert(entry)

    def table_modify(self, table: str, entry: TableEntry) -> None:
        """Replace an entry's action and idle timeout."""
        self.table(table).modify(entry)

    def table_delete(self, table: str, match: MatchKey, priority: int = 0) -> None:
        """Remove an entry."""
        self.table(table).delete(match, priority)

    def table_get(self, table: str, match: MatchKey, priority: int = 0) -> TableEntry:
        """Return an entry."""
        return self.table(table).get(match, priority)

    def table_entries(self, table: str) -> list[TableEntry]:
        """Return all entries."""
        return self.table(table).entries()

    def table_set_default(self, table: str, action: EntryAction | None) -> None:
        """Set the default action; None restores the program's own."""
        self.table(table).set_default(action)

    def table_default(self, table: str) -> TableEntry | None:
        """Return the default entry."""
        return self.table(table).default_entry()

    def table_set_counter(self, table: str, match: MatchKey | None, priority: int, value: CounterValue) -> None:
        """Write an entry's direct counter."""
        if match is None:
            raise InvalidRequestError(f"table {table}: the default entry has no counter")
        self.table(table).set_counter(match, priority, value)

    def table_set_meter(self, table: str, match: MatchKey | None, priority: int, config: MeterConfig | None) -> None:
        """Write an entry's direct meter."""
        if match is None:
            raise InvalidRequestError(f"table {table}: the default entry has no meter")
        self.table(table).set_meter(match, priority, config)

    # -- action profiles ----------------------------------------------------------------------------------------------

    def profile(self, name: str) -> Profile:
        """Return an action profile of the program that is written to."""
        profile = self.program().profiles.get(name)
        if profile is None:
            raise NotFoundError(f"the program has no action profile {name}")
        return profile

    def profile_insert_member(self, profile: str, member: ProfileMember) -> None:
        """Add a member."""
        self.profile(profile).insert_member(member)

    def profile_modify_member(self, profile: str, member: ProfileMember) -> None:
        """Replace a member's action."""
        self.profile(profile).modify_member(member)

    def profile_delete_member(self, profile: str, member_id: int) -> None:
        """Remove a member."""
        self.profile(profile).delete_member(member_id)

    def profile_members(self, profile: str) -> list[ProfileMember]:
        """Return all members."""
        return self.profile(profile).members()

    def profile_insert_group(self, profile: str, group: ProfileGroup) -> None:
        """Add a group."""
        self.profile(profile).insert_group(group)

    def profile_modify_group(self, profile: str, group: ProfileGroup) -> None:
        """Replace a group's members."""
        self.profile(profile).modify_group(group)

    def profile_delete_group(self, profile: str, group_id: int) -> None:
        """Remove a group."""
        self.profile(profile).delete_group(group_id)

    def profile_groups(self, profile: str) -> list[ProfileGroup]:
        """Return all groups."""
        return self.profile(profile).groups()

    # -- cells --------------------------------------------------------------------------------------------------------

    def counter_read(self, name: str, index: int) -> CounterValue:
        """Return one counter cell."""
        return self.program().counter_read(name, index)

    def counter_write(self, name: str, index: int, value: CounterValue) -> None:
        """Set one counter cell."""
        self.program().counter_write(name, index, value)

    def meter_read(self, name: str, index: int) -> MeterConfig | None:
        """Return one meter's configuration."""
        return self.program().meter_read(name, index)

    def meter_write(self, name: str, index: int, config: MeterConfig | None) -> None:
        """Configure one meter."""
        self.program().meter_write(name, index, config)

    def register_read(self, name: str, index: int) -> int:
        """Return one register cell."""
        return self.program().register_read(name, index)

    def register_write(self, name: str, index: int, value: int) -> None:
        """Set one register cell."""
        self.program().register_write(name, index, value)

    def value_set_members(self, name: str) -> list[tuple[tuple[int, int], ...]]:
        """Return the members of a parser value set."""
        return list(self.program().value_set(name).members)

    def value_set_replace(self, name: str, members: Iterable[tuple[tuple[int, int], ...]]) -> None:
        """Replace the members of a parser value set."""
        self.program().replace_value_set(name, members)

    # -- replication and digests --------------------------------------------------------------------------------------

    def multicast_insert(self, group_id: int, replicas: Sequence[Replica]) -> None:
        """Add a multicast group."""
        self.copies().insert_group(group_id, replicas)

    def multicast_modify(self, group_id: int, replicas: Sequence[Replica]) -> None:
        """Replace a multicast group's replicas."""
        self.copies().modify_group(group_id, replicas)

    def multicast_delete(self, group_id: int) -> None:
        """Remove a multicast group."""
        self.copies().delete_group(group_id)

    def multicast_groups(self) -> dict[int, tuple[Replica, ...]]:
        """Return all multicast groups."""
        return dict(self.copies().groups)

    def clone_insert(self, session: CloneSession) -> None:
        """Add a clone session."""
        self.copies().insert_session(session)

    def clone_modify(self, session: CloneSession) -> None:
        """Replace a clone session."""
        self.copies().modify_session(session)

    def clone_delete(self, session_id: int) -> None:
        """Remove a clone session."""
        self.copies().delete_session(session_id)

    def clone_sessions(self) -> list[CloneSession]:
        """Return all clone sessions."""
        return list(self.copies().sessions.values())

    def digest_enable(self, name: str, config: DigestConfig | None) -> None:
        """Start collecting a digest, or stop (None)."""
        self.program().digests.enable(name, config)

    def digest_ack(self, name: str, list_id: int) -> None:
        """Acknowledge a list."""
        self.program().digests.ack(name, list_id)

    def on_digest(self, callback: DigestCallback | None) -> None:
        """Set who gets digest lists."""
        self.digest_callback = callback
        if self.instance is not None:
            self.instance.digests.callback = callback
