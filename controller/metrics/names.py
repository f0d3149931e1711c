"""Every metric of the Prometheus page: type, labels, meaning.

`python -m mrclab.controller.metrics.names` writes docs/metrics.md. A value of an agent that is not listed here is
exported as a gauge.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mrclab import HOME

PREFIX: Final = "mrclab"
FILE = HOME / "docs" / "metrics.md"


class Metric(NamedTuple):
    """Exposition of one metric."""

    kind: str  # counter or gauge
    labels: tuple[str, ...]
    text: str


COUNTER, GAUGE = "counter", "gauge"

_PORT, _EV = ("switch", "port"), ("ev", "switch")

CONTROLLER: Final[Mapping[str, Metric]] = {
    "switch_ready": Metric(GAUGE, ("switch",), "1 if a switch holds its intended entries"),
    "links": Metric(GAUGE, (), "cables of the fabric"),
    "links_verified": Metric(GAUGE, (), "cables verified"),
    "agent_config_version": Metric(
        GAUGE, ("host",), "version of the node config that a host's agent uses; 0: no agent"
    ),
    "denied": Metric(GAUGE, ("element", "source"), "1 for each denial in force"),
}
SWITCHES: Final[Mapping[str, Metric]] = {
    "switch_rx_packets_total": Metric(COUNTER, _PORT, "frames received"),
    "switch_rx_bytes_total": Metric(COUNTER, _PORT, "bytes received"),
    "switch_trimmed_total": Metric(COUNTER, _PORT, "packets trimmed to their headers at this output port"),
    "switch_ecn_marked_total": Metric(COUNTER, _PORT, "packets marked CE at this port"),
    "switch_tx_packets_total": Metric(COUNTER, (*_PORT, "class"), "frames sent by class"),
    "switch_tx_bytes_total": Metric(COUNTER, (*_PORT, "class"), "bytes sent by class"),
    "switch_dropped_packets_total": Metric(COUNTER, ("switch", "reason"), "packets dropped by reason"),
    "ev_packets_total": Metric(COUNTER, _EV, "packets sent with a watched EV"),
    "ev_bytes_total": Metric(COUNTER, _EV, "bytes sent with a watched EV"),
}

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "qp": ("qp", "qpn", "peer"),
    "path": ("qp", "ev", "plane", "uplink"),
    "port": ("port",),
}
"""Labels that identify a row of an agent, beside `host`."""

_AGENT_COUNTERS: Final[Mapping[str, Mapping[str, str]]] = {
    "qp": {
        "posted_bytes": "bytes of the messages posted",
        "sent_packets": "data packets sent, including retransmissions",
        "sent_bytes": "payload bytes sent, including retransmissions",
        "acked_packets": "data packets acknowledged",
        "acked_bytes": "payload bytes acknowledged",
        "retx_packets": "data packets retransmitted",
        "lost_packets": "data packets declared lost, for any reason; with go-back-N those retransmitted",
        "lost_nack": "lost packets reported by a NACK or NAK",
        "lost_timeout": "lost packets detected by a timeout",
        "lost_time": "lost packets detected by time (RACK): packets sent later were acknowledged",
        "lost_same_ev": "lost packets detected because a later packet of the same EV was acknowledged",
        "lost_port": "lost packets whose NIC port, or the peer's, went down",
        "spurious_packets": "packets retransmitted although the first copy arrived",
        "late_packets": "packets declared lost that arrived before they were retransmitted",
        "acks_received": "acknowledgements received",
        "sacks_received": "selective acknowledgements received",
        "nacks_received": "NACKs or NAKs received",
        "marks_received": "requests from the receiver to skip an EV",
        "cnps_received": "congestion notifications received",
        "timeouts": "retransmission timeouts",
        "tail_probes": "reliability probes sent because no SACK came",
        "path_probes": "EV probes sent",
        "probe_replies": "replies to probes",
        "bogus_control": "control packets that refer to a packet that was never sent",
        "received_packets": "data packets received",
        "placed_packets": "data packets placed in memory",
        "placed_bytes": "payload bytes placed in memory",
        "duplicate_packets": "data packets received more than once",
        "ecn_packets": "data packets received with ECN-CE",
        "trimmed_packets": "trimmed packets received",
        "out_of_order": "packets dropped because an earlier one is missing",
        "out_of_window": "packets beyond the receive window",
        "no_bitmap": "packets refused because no bitmap was free (NO_BITMAP)",
        "no_pkt_buffer": "packets refused because the packet buffer was full (NO_PKT_BUFFER)",
        "no_resource": "immediates refused because no receive was posted (NO_RESOURCE)",
        "access_errors": "writes outside a memory region, or without write access",
        "acks_sent": "acknowledgements sent",
        "sacks_sent": "selective acknowledgements sent",
        "nacks_sent": "NACKs or NAKs sent",
        "cnps_sent": "congestion notifications sent",
        "probes_answered": "probes answered",
        "penalties": "SACKs sent with a congestion penalty",
        "always_skips_sent": "SACKs sent with ALWAYS_SKIP",
        "skips_ignored": "requests to skip an EV that were ignored to keep enough EVs in use",
        "floor_hits": "EVs kept in use after a loss because too few were left",
    },
    "path": {
        "sent_packets": "data packets sent on this EV, including retransmissions",
        "acked_packets": "data packets acknowledged",
        "lost_packets": "data packets declared lost",
        "nacked_packets": "data packets answered by a NACK",
        "marked_packets": "data packets that arrived with ECN-CE",
        "retx_packets": "retransmissions sent on this EV",
    },
    "port": {
        "rx_packets": "frames received",
        "rx_bytes": "bytes received",
        "tx_packets": "frames sent",
        "tx_bytes": "bytes sent",
        "tx_errors": "frames that the kernel failed to send",
        "socket_drops": "frames dropped because the socket's receive buffer was full",
        "other_frames": "frames of other senders than the lab",
        "placed_bytes": "payload bytes received on this port and placed in memory",
        "icrc_errors": "packets discarded because of a wrong ICRC",
        "malformed": "packets discarded because they are truncated or inconsistent",
        "foreign": "packets of another protocol, discarded",
        "misdelivered": "packets for another host or port, discarded",
        "no_qp": "packets discarded because the QP does not exist",
    },
}  # fmt: skip
_AGENT_GAUGES: Final[Mapping[str, Mapping[str, str]]] = {
    "qp": {
        "cwnd": "congestion window in bytes; 0: none",
        "cc_inflight": "bytes in flight as counted by congestion control",
        "inflight": "bytes in flight",
        "outstanding": "packets sent but not acknowledged",
        "rtt": "smoothed round trip in seconds",
        "base_rtt": "round trip of an idle fabric in seconds",
        "avg_delay": "smoothed queueing delay in seconds",
        "target_delay": "target queueing delay of congestion control in seconds",
        "reorder_rtts": "reordering tolerance in round trips before a packet counts as lost",
        "rate": "allowed rate in bytes/s",
        "target_rate": "target rate of DCQCN's recovery in bytes/s",
        "alpha": "DCQCN's estimate of congestion, 0 to 1",
        "last_placed": "time at which the last packet was placed, seconds of the monotonic clock",
        "max_gap": "longest time in seconds without a packet since the last sample",
    },
    "path": {"sport": "UDP source port of a RoCEv2 QP, which selects its path"},
    "port": {"up": "1 if the NIC port has carrier"},
}  # fmt: skip


def agent_metric(row: str, field: str) -> tuple[str, Metric]:
    """Name (without prefix) and metric of a number of an agent's `row`: qp, path or port."""
    labels = ("host", *KEYS[row])
    if text := _AGENT_COUNTERS[row].get(field):
        return f"{row}_{field}_total", Metric(COUNTER, labels, text)
    return f"{row}_{field}", Metric(
        GAUGE, labels, _AGENT_GAUGES[row].get(field, f"{field.replace('_', ' ')} of a host's {row}")
    )


def agents() -> dict[str, Metric]:
    """All metrics that agents are known to report."""
    return dict(agent_metric(row, field) for row in KEYS for field in (*_AGENT_COUNTERS[row], *_AGENT_GAUGES[row]))


def build() -> str:
    """The page of docs/."""
    lines = [
        "# Metrics",
        "",
        "Use this page to find a metric for a query or a dashboard. The controller's operation `metrics` returns the",
        "address that Prometheus scrapes, in either world ([controller](controller.md)). Counters of QPs, EVs and NIC",
        "ports start at 0 with the host's agent. The tables list the metrics of MRC and of RoCEv2 together; each",
        "transport exports only its own. Generated by `python -m mrclab.controller.metrics.names`.",
    ]
    parts = {"Controller": CONTROLLER, "Switches": SWITCHES}
    rows = {"QPs of hosts": "qp", "EVs of QPs": "path", "NIC ports of hosts": "port"}
    everything = agents()
    for title, row in rows.items():
        parts[title] = {name: metric for name, metric in everything.items() if name.startswith(f"{row}_")}
    for title, metrics in parts.items():
        lines += ["", f"## {title}", "", "| Metric | Type | Labels | Meaning |", "|---|---|---|---|"]
        for name, metric in metrics.items():
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            lines.append(f"| `{PREFIX}_{name}` | {metric.kind} | {labels} | {metric.text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(build(), encoding="utf-8")
