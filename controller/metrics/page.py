"""Counters and states as Prometheus text (exposition format 0.0.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrclab.controller.metrics.names import CONTROLLER, KEYS, PREFIX, SWITCHES, Metric, agent_metric

_ROWS = {"qps": "qp", "paths": "path", "ports": "port"}
_KNOWN = {**CONTROLLER, **SWITCHES}

Labels = Mapping[str, str]


class MetricsPage:
    """Builds one page: each metric's HELP and TYPE once, its samples together."""

    def __init__(self) -> None:
        self._samples: dict[str, list[str]] = {}
        self._heads: dict[str, str] = {}

    def add(self, name: str, labels: Labels, value: float, metric: Metric | None = None) -> None:
        """One sample of metric `name` (without prefix): one that is known, or the given one."""
        metric = metric or _KNOWN[name]
        full = f"{PREFIX}_{name}"
        self._heads.setdefault(full, f"# HELP {full} {metric.text}\n# TYPE {full} {metric.kind}")
        inner = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
        number = str(int(value)) if value == int(value) else repr(value)
        self._samples.setdefault(full, []).append(f"{full}{{{inner}}} {number}")

    def text(self) -> str:
        """The page."""
        blocks = ["\n".join([self._heads[name], *samples]) for name, samples in self._samples.items()]
        return "\n".join(blocks) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def page(
    status: Mapping[str, Any],
    switches: Mapping[str, Any],
    evs: Mapping[str, Mapping[str, Mapping[str, int]]],
    hosts: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return the page of a controller: its `status`, its switches' and watched EVs' counters, its hosts' `stats`."""
    made = MetricsPage()
    add_states(made, status)
    add_switches(made, switches)
    add_evs(made, evs)
    add_agents(made, hosts)
    return made.text()


def add_switches(page: MetricsPage, switches: Mapping[str, Any]) -> None:
    """Add the API's `counters`, per switch, port, class and drop reason."""
    for switch, found in switches.items():
        for port, cells in found["ports"].items():
            labels = {"switch": switch, "port": port}
            for name in ("rx_packets", "rx_bytes", "trimmed", "ecn_marked"):
                page.add(f"switch_{name}_total", labels, cells[name])
            for kind, cell in cells["class"].items():
                sent = {**labels, "class": kind}
                page.add("switch_tx_packets_total", sent, cell["packets"])
                page.add("switch_tx_bytes_total", sent, cell["bytes"])
        for reason, packets in found["drops"].items():
            page.add("switch_dropped_packets_total", {"switch": switch, "reason": reason}, packets)


def add_states(page: MetricsPage, status: Mapping[str, Any]) -> None:
    """Add the API's `status`: switches that are ready, cables verified, agents connected, elements denied."""
    for name, state in status["by_switch"].items():
        ready = state["state"] == "ready"
        page.add("switch_ready", {"switch": name}, ready)
    page.add("links_verified", {}, status["links_verified"])
    page.add("links", {}, status["links"])
    for host, version in status["agents"].items():
        page.add("agent_config_version", {"host": host}, version)
    for denial in status["denied"]:
        page.add("denied", {"element": denial["element"], "source": denial["source"]}, 1)


def add_evs(page: MetricsPage, counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> None:
    """Add the API's `ev_counters`: packets and bytes of watched EVs by switch."""
    for ev, by_switch in counts.items():
        for switch, cell in by_switch.items():
            labels = {"ev": f"{int(ev):#010x}", "switch": switch}
            page.add("ev_packets_total", labels, cell["packets"])
            page.add("ev_bytes_total", labels, cell["bytes"])


def add_agents(page: MetricsPage, stats: Mapping[str, Mapping[str, Any]]) -> None:
    """Add the counters of the hosts' agents, per QP, path and port."""
    for host, found in stats.items():
        for kind, row_kind in _ROWS.items():
            keys = KEYS[row_kind]
            for row in found.get(kind, ()):
                labels = {"host": host, **{key: str(row[key]) for key in keys if key in row}}
                for field, value in row.items():
                    if field not in keys and isinstance(value, (int, float)):
                        name, metric = agent_metric(row_kind, field)
                        page.add(name, labels, value, metric)
