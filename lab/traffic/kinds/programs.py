"""Traffic of kind `program`: users' programs, written to OCP's MRC headers, or ranks of a job."""

import itertools
import shlex
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from mrclab.lab.kinds import WorldName
from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.names import HostName, RegularExpression
from mrclab.lab.traffic.base import TRAFFIC, Flow, TrafficBase
from mrclab.lab.traffic.families import HostList
from mrclab.topo.model import Fabric


def _check_command(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"the command is no line of a shell: {str(error).lower()}") from None
    if not words:
        raise ValueError("the command is empty")
    return command


def _check_pattern(pattern: str) -> str:
    parts = PurePosixPath(pattern).parts
    if not parts or parts[0] == "/" or ".." in parts or any("**" in part and part != "**" for part in parts):
        raise ValueError(f"{pattern!r} is not a pattern of files in $MRCLAB_FILES; write, for example, '*.csv'")
    return pattern


Command = Annotated[str, Field(min_length=1), AfterValidator(_check_command)]


class ProgramSpec(Strict):
    """One user's program, written to OCP's MRC headers, on one host."""

    host: HostName
    command: Command = Field(
        description="as a shell would split it; {h3} is h3's address for TCP, e.g. ./mrc_example -d mrc0 {h3}"
    )
    ready: RegularExpression | None = Field(
        default=None, description="regular expression of the output after which the next one starts"
    )


class RanksSpec(Strict):
    """The ranks of one job, a host each, with the environment that torchrun sets."""

    command: Command = Field(
        description="what every rank runs, as a shell would split it, e.g. python examples/train/gpt.py --steps 20;"
        " python is the one that runs the lab"
    )
    hosts: HostList = Field(default=["all"], validate_default=True, description="all, or a list in the order of ranks")
    steps: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="steps that the job reports, so that a fault can begin at 50% of it"
    )


@TRAFFIC.register
class Programs(TrafficBase):
    """Programs on lib_mrc.so: `programs`, each started when the previous one is ready, the first as the receiver;
    or the `ranks` of a job, such as training, which start together.
    """

    driver: ClassVar[str] = "mrclab.lab.traffic.running.programs:RunningPrograms"
    worlds: ClassVar[frozenset[WorldName]] = frozenset({"wire"})
    keeps_messages: ClassVar[bool] = False
    local_fields: ClassVar[frozenset[str]] = frozenset({"programs", "ranks", "files"})

    kind: Literal["program"]
    programs: list[ProgramSpec] = Field(default=[], description="programs, in the order of their start")
    ranks: RanksSpec | None = Field(default=None, description="one job with a rank on every host")
    files: list[Annotated[str, AfterValidator(_check_pattern)]] = Field(
        default=[], description="patterns of what they leave in $MRCLAB_FILES, taken into the results, e.g. ['*.csv']"
    )

    @model_validator(mode="after")
    def _own_qps(self) -> "Programs":
        if self.qps is not None or self.paths or self.attributes:
            raise ValueError(f"{self.name} makes its QPs by itself; leave qps, paths and attributes out")
        if bool(self.programs) == (self.ranks is not None):
            raise ValueError(f"{self.name} needs either programs or ranks")
        if len(set(self.program_hosts)) < 2 and self.program_hosts != ["all"]:
            raise ValueError(f"{self.name} has programs on one host alone; a flow needs two hosts")
        return self

    @property
    def steps(self) -> int | None:
        """Steps that the ranks report, if given."""
        return self.ranks.steps if self.ranks is not None else None

    @property
    def program_hosts(self) -> list[str]:
        """Host of each program, in order."""
        return list(self.ranks.hosts) if self.ranks is not None else [one.host for one in self.programs]

    @property
    def commands(self) -> list[ProgramSpec]:
        """Each program with its host."""
        if self.ranks is None:
            return self.programs
        return [ProgramSpec(host=host, command=self.ranks.command) for host in self.ranks.hosts]

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """From each host to that of the first program; between ranks, from each host to every other."""
        if self.ranks is not None:
            return [Flow(self.name, a, b, None) for a, b in itertools.permutations(self.program_hosts, 2)]
        first = self.programs[0].host
        senders = dict.fromkeys(one.host for one in self.programs if one.host != first)
        return [Flow(self.name, source, first, None) for source in senders]

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """Return nothing: the agents do nothing by themselves."""
        return {"kind": "program", "commands": [f"{one.host}: {one.command}" for one in self.commands]}

    @property
    def together(self) -> bool:
        """True: a program that fails leaves the others waiting."""
        return True

    def text(self, fabric: Fabric, qps: int) -> str:
        """Commands, each with its host."""
        return "; ".join(f"{one.host}: {one.command}" for one in self.commands)
