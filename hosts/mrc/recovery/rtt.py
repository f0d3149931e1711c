"""Round-trip times of one QP (RFC 6298), and the probe timeout derived from them (RFC 8985)."""

from __future__ import annotations

from typing import Final

from mrclab.hosts.mrc.settings import IDLE_RTTS, MrcQpSettings

_SRTT_GAIN: Final = 0.125
_RTTVAR_GAIN: Final = 0.25
_PTO_SLACK_RTTS: Final = 0.125  # minimum slack of the probe timeout, beyond the time that a peer may delay a SACK
_PTO_VARIATIONS: Final = 4.0


class RttEstimator:
    """Smoothed round-trip time and its variation, seconds; 0 before the first sample."""

    __slots__ = ("_settings", "_var", "pto", "srtt")

    def __init__(self, settings: MrcQpSettings) -> None:
        self._settings = settings
        self.srtt = 0.0
        self._var = 0.0
        self.pto = 0.0  # probe timeout: a packet is overdue this long after it was sent; 0: unknown

    def sample(self, rtt: float) -> None:
        """Take a sample."""
        srtt = self.srtt
        if not srtt:
            self.srtt, self._var = rtt, rtt / 2
        else:
            self._var += _RTTVAR_GAIN * (abs(rtt - srtt) - self._var)
            self.srtt = srtt + _SRTT_GAIN * (rtt - srtt)
        settings = self._settings
        if settings.sack_loss:
            base = settings.base_rtt
            slack = max(_PTO_SLACK_RTTS * base, _PTO_VARIATIONS * self._var)
            self.pto = min(self.srtt + IDLE_RTTS * base + slack, settings.tail_probe_rtts * self.srtt)
