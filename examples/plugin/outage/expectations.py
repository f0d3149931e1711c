"""The expectation `lost_share`: how many of the packets sent were declared lost."""

from typing import Literal

from mrclab.lab.expectations.base import EXPECTATIONS, BaseExpectation, Verdict
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.validity.evidence import NoEvidence
from mrclab.lab.scenario.units import Percent


@EXPECTATIONS.register
class LostShare(BaseExpectation):
    """Of all data packets sent, at most a share was declared lost."""

    kind: Literal["lost_share"]
    at_most: Percent

    def judge(self, measures: Measures) -> Verdict:
        """Packets declared lost over packets sent, of all senders."""
        sent = sum(measures.paths.packets.values())
        if not sent:
            raise NoEvidence("no packet was sent", "")
        share = sum(loss.packets for loss in measures.paths.losses) / sent
        expected, observed = f"at most {self.at_most:.1%} of the packets are lost", f"{share:.2%} of {sent}"
        return self.verdict(share <= self.at_most, expected, observed, value=share)
