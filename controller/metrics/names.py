"""Every metric of the Prometheus page: type, labels, meaning.

`python -m mrclab.controller.metrics.names` writes docs/metrics.md. A number of an agent that is not named here
is shown as a gauge.
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
    "agent_config_version": Metric(GAUGE, ("host",), "node config that a host's agent uses, 0: no agent"),
    "denied": Metric(GAUGE, ("element", "source"), "1 for each denial in force"),
}
SWITCHES: Final[Mapping[str, Metric]] = {
    "switch_rx_packets_total": Metric(COUNTER, _PORT, "frames that came in"),
    "switch_rx_bytes_total": Metric(COUNTER, _PORT, "bytes that came in"),
    "switch_trimmed_total": Metric(COUNTER, _PORT, "packets cut to their headers on the way to this port"),
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
        "sent_packets": "data packets sent, with retransmissions",
        "sent_bytes": "payload bytes sent, with retransmissions",
        "acked_packets": "data packets acknowledged",
        "acked_bytes": "payload bytes acknowledged",
        "retx_packets": "data packets sent again",
        "lost_packets": "data packets declared lost by any trigger; with go-back-N those sent again",
        "lost_nack": "of these by a NACK or NAK",
        "lost_timeout": "of these by a timeout",
        "lost_time": "of these for the time since they were sent, while later ones were acknowledged",
        "lost_same_ev": "of these since a later packet of the same EV was acknowledged",
        "lost_port": "of these since their NIC port, or the peer's, went down",
        "spurious_packets": "packets declared lost and sent again although the first copy arrived",
        "late_packets": "packets declared lost that arrived before they were sent again",
        "acks_received": "acknowledgements received",
        "sacks_received": "selective acknowledgements received",
        "nacks_received": "NACKs or NAKs received",
        "marks_received": "requests of the receiver to skip an EV",
        "cnps_received": "congestion notifications received",
        "timeouts": "retransmission timeouts",
        "tail_probes": "tail loss probes sent",
        "path_probes": "EV probes sent",
        "probe_replies": "replies to probes",
        "bogus_control": "control packets that name a packet which was never sent",
        "received_packets": "data packets received",
        "placed_packets": "data packets placed in memory",
        "placed_bytes": "payload bytes placed in memory",
        "duplicate_packets": "data packets received more than once",
        "ecn_packets": "data packets received that were marked CE",
        "trimmed_packets": "trimmed packets received",
        "out_of_order": "packets dropped since an earlier one is missing",
        "out_of_window": "packets beyond the receive window",
        "no_bitmap": "packets refused for want of a bitmap",
        "no_pkt_buffer": "packets refused for want of a buffer",
        "no_resource": "immediates without a posted receive",
        "access_errors": "writes outside a memory region, or without the right",
        "acks_sent": "acknowledgements sent",
        "sacks_sent": "selective acknowledgements sent",
        "nacks_sent": "NACKs or NAKs sent",
        "cnps_sent": "congestion notifications sent",
        "probes_answered": "probes answered",
        "penalties": "SACKs sent with a congestion penalty",
        "condemned": "SACKs sent with ALWAYS_SKIP",
        "skips_ignored": "requests to skip an EV that were not followed, to keep enough EVs in use",
        "floor_hits": "EVs kept in use although they lost, since too few were left",
    },
    "path": {
        "sent_packets": "data packets sent on this EV, with retransmissions",
        "acked_packets": "of these acknowledged",
        "lost_packets": "of these declared lost",
        "nacked_packets": "of these answered by a NACK",
        "marked_packets": "of these marked CE on their way",
        "retx_packets": "retransmissions sent on this EV",
    },
    "port": {
        "rx_packets": "frames received",
        "rx_bytes": "bytes received",
        "tx_packets": "frames sent",
        "tx_bytes": "bytes sent",
        "tx_errors": "frames that the kernel refused to send",
        "socket_drops": "frames that came while the socket's buffer was full",
        "other_frames": "frames that are not the lab's",
        "placed_bytes": "payload bytes placed in memory that came by this port",
        "icrc_errors": "packets discarded for a wrong ICRC",
        "malformed": "packets discarded that end inside a header, or contradict themselves",
        "foreign": "packets discarded that are of another protocol",
        "misdelivered": "packets discarded that are for another host or port",
        "no_qp": "packets discarded for a QP that is not there",
    },
}  # fmt: skip
_AGENT_GAUGES: Final[Mapping[str, Mapping[str, str]]] = {
    "qp": {
        "cwnd": "congestion window in bytes; 0: none",
        "cc_inflight": "bytes in flight as congestion control counts them",
        "inflight": "bytes in flight",
        "outstanding": "packets sent and not acknowledged",
        "rtt": "smoothed round trip in seconds",
        "base_rtt": "round trip of an idle fabric in seconds",
        "avg_delay": "queueing delay in seconds, smoothed",
        "target_delay": "queueing delay in seconds that congestion control aims at",
        "reorder_rtts": "round trips that a packet may be overtaken by before it counts as lost",
        "rate": "allowed rate in bytes/s",
        "target_rate": "rate in bytes/s that DCQCN recovers towards",
        "alpha": "DCQCN's estimate of congestion, 0 to 1",
        "last_placed": "when the last packet was placed, seconds of the monotonic clock",
        "max_gap": "longest time in seconds without a packet since the last sample",
    },
    "path": {"sport": "UDP source port that the one path of a RoCEv2 QP uses"},
    "port": {"up": "1 where the NIC port has carrier"},
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
        "Made from the controller's own tables by `python -m mrclab.controller.metrics.names`. The operation `metrics`",
        "of [the controller](controller.md) returns the address of the page that Prometheus reads, in either world.",
        "Counters of QPs, EVs and NIC ports grow from the start of the host's agent; those of MRC and of RoCEv2 stand",
        "together: each transport reports its own.",
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
