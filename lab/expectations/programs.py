"""Expectation of programs that must fail, and say why."""

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from mrclab.lab.expectations.base import EXPECTATIONS, BaseExpectation, Verdict
from mrclab.lab.measure.validity.evidence import NoEvidence
from mrclab.lab.scenario.names import RegularExpression, TrafficName

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures


@EXPECTATIONS.register
class ProgramFails(BaseExpectation):
    """Programs that end by themselves with an error that gives the reason: loudly, and without hanging."""

    kind: Literal["program_fails"]
    traffic: TrafficName
    at_least: Annotated[int, Field(ge=1)] = Field(default=1, description="programs, each on a host of its own")
    says: RegularExpression = Field(
        default="", description="regular expression that each one's error matches, e.g. rank 3 .* is gone"
    )

    def judge(self, measures: "Measures") -> Verdict:
        """Exit status and error of each program."""
        ends = [end for end in measures.history.of("program.end") if end["traffic"] == self.traffic]
        if not ends:
            raise NoEvidence(f"no program of {self.traffic} ended", measures.span_text(measures.start, measures.end))
        failed = [end for end in ends if end["exit_status"] > 0]
        matching = [end for end in failed if re.search(self.says, end["error"])]
        about = f" and say '{self.says}'" if self.says else ""
        expected = f"at least {self.at_least} programs of {self.traffic} fail by themselves{about}"
        hosts = ", ".join(end["host"] for end in matching)
        others = [end for end in ends if end not in matching]
        observed = f"{len(matching)}: {hosts}" if matching else "none"
        if others:
            host, status, error = (others[0][key] for key in ("host", "exit_status", "error"))
            observed += f"; {host} {error}" if status < 0 else f"; {host} ended with status {status}"
            observed += f": {error or 'no message'}" if status > 0 else ""
        last = max(end.t for end in ends)
        passed, when = len(matching) >= self.at_least, f"at {measures.time_text(last)}"
        return self.verdict(passed, expected, observed, when, len(matching), "programs")
