"""Plausible bugs: a piece of source, what a mistake would make of it, and the tests that should notice."""

from __future__ import annotations

from typing import Final, NamedTuple


class Mutant(NamedTuple):
    """One bug. `old` stands in `file` exactly once.

    `tests` are files of tests/unit without `test_` and `.py`, one that notices soon first; `file::test` is one test of
    it, without `test_`, too.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


_REQ, _RESP = "hosts/mrc/requestor.py", "hosts/mrc/responder.py"
_RECOVERY, _LOSS = "hosts/mrc/recovery/recovery.py", "hosts/mrc/recovery/loss.py"
_IN_FLIGHT, _WINDOW = "hosts/mrc/recovery/inflight.py", "hosts/mrc/recovery/window.py"
_LIMITS, _EVSET, _PROBING = "hosts/mrc/receivelimits.py", "hosts/mrc/evs/evset.py", "hosts/mrc/evs/probing.py"
_OPS, _PEER, _NSCC = "hosts/mrc/endpoint_ops.py", "hosts/mrc/peers.py", "hosts/mrc/cc/nscc.py"
_ENDPOINT, _CONTROL = "hosts/mrc/endpoint.py", "hosts/mrc/packets/controlqueue.py"
_RETRIES = "hosts/mrc/recovery/retries.py"

MUTANTS: Final = (
    # --- survivors of an earlier trial --------------------------------------------------------------------------------
    Mutant("a late packet is not put back into flight", _IN_FLIGHT, "        self.bytes += packet.nominal\n        self.cc.on_requeue(-packet.nominal)", "        self.cc.on_requeue(0)", ("mrc_survivors",)),
    Mutant("a retransmission takes the path it was lost on", _EVSET, "        ev = self.select(plane, now, lost_ev)\n", "        ev = self.select(plane, now)\n", ("mrc_survivors",)),
    Mutant("a trim in the core does not skip the EV", _REQ, "        if nack.reason == h.Reason.TRIMMED:\n", "        if nack.reason == h.Reason.TRIMMED_LASTHOP:\n", ("mrc_survivors",)),
    Mutant("a NACK about an older copy is obeyed", _RECOVERY, "return packet if is_last else None", "return packet", ("mrc_survivors",)),
    Mutant("a late answer overrides newer news of ports", _ENDPOINT, "        if sent_at < peer.ports_at:\n            return\n", "", ("mrc_survivors", "mrc_ports")),
    Mutant("a trimmed copy of a packet that arrived draws a NACK", _RESP, "        if distance < 0 or self.bits >> max(distance, 0) & 1:\n            self._sack(packet, seq, now)  # it arrived whole before\n            return\n", "", ("mrc_survivors",)),
    Mutant("a SACK that answers a probe has an empty bitmap", _RESP, "            bitmap=bits >> (first - self.base) & _BITMAP_MASK if bits else 0,", "            bitmap=bits >> (first - self.base) & _BITMAP_MASK if bits and item.probe_id is None else 0,", ("mrc_survivors",)),
    # --- sending half -------------------------------------------------------------------------------------------------
    Mutant("the window is one packet too large", _REQ, "            or window.next - window.una >= self.psn_window\n", "            or window.next - window.una > self.psn_window\n", ("mrc_survivors", "mrc_endpoint", "mrc_properties")),
    Mutant("the last packet asks for no answer", _REQ, "if not self.unsent or window.next - window.una >= self.psn_window or self._cc.wants_ack():", "if window.next - window.una >= self.psn_window or self._cc.wants_ack():", ("mrc_survivors", "mrc_endpoint", "mrc_tail")),
    Mutant("a retransmission is not flagged", _REQ, "self._class_retx, h.FLAG_RTX)", "self._class_retx, 0)", ("mrc_survivors", "mrc_endpoint")),
    Mutant("a retransmission travels in the class of new data", _REQ, "(_TC_DATA, _TC_RETX) if s.trimming", "(_TC_DATA, _TC_DATA) if s.trimming", ("mrc_survivors", "mrc_endpoint")),
    Mutant("messages complete out of order", _REQ, "while self.incomplete and 0 <= self.incomplete[0].last_seq < una:", "while self.incomplete and 0 <= self.incomplete[0].last_seq <= una:", ("mrc_survivors", "mrc_endpoint", "mrc_properties")),
    Mutant("an immediate is never given back to the window", _REQ, "                self.wimm_in_flight -= 1\n", "                pass\n", ("mrc_survivors", "mrc_verbs", "mrc_endpoint")),
    Mutant("packets lost with a port stay in flight", _REQ, "            if packet.state is _FLIGHT and packet.ev.plane == plane:\n", "            if packet.state is _LOST and packet.ev.plane == plane:\n", ("mrc_survivors",)),
    Mutant("a QP without a plane waits forever", _RETRIES, "            self.arm(now + self._loss.timeout)", "            pass", ("mrc_endpoint", "mrc_denied", "mrc_ports", "mrc_verbs")),
    Mutant("timeouts are not counted as retries", _RETRIES, "        if self._loss.retry(after_timeout):\n            return True\n", "        return True\n", ("mrc_endpoint", "mrc_retries")),
    Mutant("a NACK costs a retry each", _RETRIES, "        if now - max(self._counted_at, last_progress) < self._requestor.qp.settings.ack_timeout:\n            return True\n", "", ("mrc_retries",)),
    Mutant("an unresponsive peer stays so", _REQ, "            self.unresponsive = False\n            self.in_flight_bytes.attach()", "            self.in_flight_bytes.attach()", ("mrc_retries", "mrc_shared_window", "mrc_endpoint")),
    Mutant("a QP whose peer is unresponsive keeps its share of the window", "hosts/mrc/recovery/sendtimer.py", "                requestor.unresponsive = True\n                requestor.in_flight_bytes.detach()", "                requestor.unresponsive = True", ("mrc_shared_window", "mrc_retries")),
    # --- feedback and loss --------------------------------------------------------------------------------------------
    Mutant("what arrived is not told to the window", _RECOVERY, "            self.window.arrived(packet)\n", "", ("mrc_survivors",)),
    Mutant("an implausible SACK is believed", _REQ, "        if not self._window.plausible(cack):\n            stats.bogus_control += 1\n            return\n        self._peer_responded()\n        verdict", "        self._peer_responded()\n        verdict", ("mrc_survivors", "mrc_stray_control", "mrc_endpoint")),
    Mutant("a trimmed packet counts as no congestion", _REQ, "trimmed = nack.reason in _TRIM_REASONS", "trimmed = False", ("mrc_survivors", "mrc_nscc", "mrc_endpoint")),
    Mutant("ALWAYS_SKIP is taken for SKIP_ONCE", _REQ, "        if sack.mark == _ALWAYS_SKIP:\n            qp.evs.lost(ev, now, \"responder\")", "        if sack.mark == _ALWAYS_SKIP:\n            pass", ("mrc_receivelimits",)),
    Mutant("a spurious loss leaves its path retired", _REQ, "            self.qp.evs.restore(ev, now, reason)\n", "            pass\n", ("mrc_reordering", "mrc_jitter", "mrc_endpoint")),
    Mutant("R never widens", _RECOVERY, "            self.loss.spurious(packet.lost_by)\n", "            pass\n", ("mrc_reordering", "mrc_jitter")),
    Mutant("the time rule does not wait for reordering", _LOSS, "self.newest_arrived - self.reorder_rtts * self.rtt_base\n", "self.newest_arrived\n", ("mrc_loss",)),
    Mutant("the same-EV rule suspects nobody", _LOSS, "and self._same_ev and not _stale(entry):", "and False:", ("mrc_loss",)),
    Mutant("suspects have no grace", _LOSS, "limit = now - self.grace_rtts * self.rtt_base", "limit = now", ("mrc_loss",)),
    Mutant("what no SACK shows missing is lost at once", _LOSS, "        if shown <= seq < end or seq == una:\n", "        if True:\n", ("mrc_loss",)),
    Mutant("an answered probe proves nothing", _LOSS, "        self.newest_arrived = max(self.newest_arrived, sent_at)\n\n    def clear", "        del sent_at\n\n    def clear", ("mrc_loss",)),
    Mutant("timeouts do not double", _LOSS, "max(0, self._expiries - self._settings.retry_linear)", "0", ("mrc_loss",)),
    Mutant("progress does not forgive retries", _LOSS, "        self.retries = 0\n        if self._expiries:\n", "        if self._expiries:\n", ("mrc_loss", "mrc_retries")),
    Mutant("the rules never come back to their start", _LOSS, "        if self._true_rounds >= _FORGET_AFTER:", "        if False:", ("mrc_loss",)),
    # --- window and account -------------------------------------------------------------------------------------------
    Mutant("a lost packet's bytes stay in flight", _IN_FLIGHT, "        self.bytes -= packet.nominal\n        return 0 if self.detached", "        return 0 if self.detached", ("mrc_survivors", "mrc_shared_window", "explore")),
    Mutant("the rest of the bytes in flight is not returned", _IN_FLIGHT, "            self.clear(now)\n\n    def clear", "            pass\n\n    def clear", ("mrc_survivors", "mrc_shared_window", "explore")),
    Mutant("a late SACK takes off what an ACK settled", _IN_FLIGHT, "            self._rcvd_units = max(self._rcvd_units, -(-self._acked // h.RCVD_UNIT))\n", "", ("mrc_survivors",)),
    Mutant("the receiver's count goes backwards", _IN_FLIGHT, "newly = max(0, total - self._rcvd_units) * h.RCVD_UNIT", "newly = (total - self._rcvd_units) * h.RCVD_UNIT", ("mrc_survivors", "mrc_properties")),
    Mutant("the bitmap is placed one seq off", _WINDOW, "        shift = base - una\n", "        shift = base - una + 1\n", ("mrc_survivors", "mrc_endpoint", "mrc_properties")),
    Mutant("a cumulative ACK forgets its last packet", _WINDOW, "        self.una = cack + 1\n        return newly_acked", "        self.una = cack\n        return newly_acked", ("mrc_endpoint",)),
    Mutant("a record used again keeps its last path", _WINDOW, "        packet.lost_ev = None\n", "", ("mrc_survivors", "mrc_endpoint")),
    # --- receiving half -----------------------------------------------------------------------------------------------
    Mutant("a duplicate is placed again", _RESP, "        if distance < 0 or self.bits >> distance & 1:\n            self._on_duplicate(packet, seq, now)\n            return 0\n", "        if distance < 0:\n            self._on_duplicate(packet, seq)\n            return 0\n", ("mrc_endpoint", "mrc_responder", "mrc_properties")),
    Mutant("the receive window has no end", _RESP, "        if distance >= self.window:\n", "        if distance >= 2 * self.window:\n", ("mrc_responder",)),
    Mutant("a message is delivered before it is whole", _RESP, "while ends and ends[0][0] < self.base:", "while ends and ends[0][0] <= self.base + 1:", ("mrc_completions", "mrc_endpoint", "mrc_responder", "mrc_properties")),
    Mutant("an immediate without a receive is taken", _RESP, "        if ahead > len(self.receives):\n", "        if ahead > len(self.receives) + 1:\n", ("mrc_endpoint", "mrc_verbs", "mrc_responder")),
    Mutant("trims at the last hop are told as core trims", _RESP, "h.Reason.TRIMMED_LASTHOP if packet.dscp == h.Dscp.TRIMMED_LASTHOP else h.Reason.TRIMMED", "h.Reason.TRIMMED", ("mrc_responder",)),
    Mutant("marks are not told", _RESP, "        mark = self._mark(packet) if packet.ce and self._echo else _NO_MARK\n", "        mark = _NO_MARK\n", ("mrc_responder",)),
    Mutant("no SACK follows when packets stop", _RESP, "        timer.arm(now + self._idle_after)", "        pass", ("mrc_responder",)),
    Mutant("the threshold of SACKs counts packets double", _RESP, "        self._unreported += max(_MIN_COUNTED, size)", "        self._unreported += 2 * max(_MIN_COUNTED, size)", ("mrc_responder",)),
    Mutant("a delayed SACK's timestamp does not advance", _RESP, "            timestamp = timestamp + int((now - self._delayed_since) * 1e6) & h.TS_MASK", "            timestamp = timestamp & h.TS_MASK", ("mrc_responder",)),
    Mutant("bitmaps are not given back", _LIMITS, "            self._units += units", "            pass", ("mrc_receivelimits", "mrc_responder")),
    Mutant("a slow memory never drains", _LIMITS, "self._bytes - (now - self._at) * self._rate", "self._bytes", ("mrc_receivelimits",)),
    # --- EVs, probes, ports -------------------------------------------------------------------------------------------
    Mutant("the floor of EVs is ignored", _EVSET, "if ev.active and backup is None and self.active_count() <= self.min_active:", "if False:", ("mrc_ev",)),
    Mutant("no backup takes the place of a retired EV", _EVSET, "        self._step(ev, EvInput.LOST, reason, now)\n        if backup is not None:", "        self._step(ev, EvInput.LOST, reason, now)\n        if False:", ("mrc_ev",)),
    Mutant("a skipped EV is never good again", _EVSET, "                    self._step(ev, EvInput.PASSED_OVER, \"skipped\", now)\n", "                    pass\n", ("mrc_ev",)),
    Mutant("every mark skips, however many are skipped", _EVSET, "        if 2 * (skipped + 1) > self.active_count():\n", "        if False:\n", ("mrc_ev",)),
    Mutant("a plane runs ahead of the others", _EVSET, "            if other.share < share and other.up and other.active:\n                return None\n", "            if False:\n                return None\n", ("mrc_ev", "mrc_properties", "mrc_endpoint")),
    Mutant("one answer brings an EV back", _PROBING, "        if state.successes >= state.needed:", "        if state.successes >= 1:", ("mrc_probing",)),
    Mutant("probes do not back off", _PROBING, "state.interval = min(2 * state.interval, policy.probe_backoff_cap * first)", "state.interval = first", ("mrc_probing",)),
    Mutant("late answers do not stretch the probe timeout", _PROBING, "                self._slowest = now - late.sent_at\n", "                pass\n", ("mrc_probing",)),
    Mutant("an EV that fails again proves itself no longer", _PROBING, "min(2 * state.needed, policy.successes_cap) if again else policy.successes_needed", "policy.successes_needed", ("mrc_probing",)),
    Mutant("an overtaken port update counts", _OPS, "        behind = peer.update_id - request_id & _ID_MASK\n", "        behind = 0\n", ("mrc_ports",)),
    Mutant("control packets keep to a dead reverse path", _PEER, "        elif now in uplinks:\n            self.reverse[plane] = uplinks[(uplinks.index(now) + 1) % len(uplinks)]", "        elif now in uplinks:\n            pass", ("mrc_reverse_loss", "mrc_endpoint", "mrc_survivors")),
    Mutant("what waits for a dead port is lost", _CONTROL, "                self._queue(item, peer, None, None)\n", "                pass\n", ("mrc_ports", "mrc_survivors", "explore")),
    # --- congestion control, RoCE, virtual time -----------------------------------------------------------------------
    Mutant("the window shrinks more than once per RTT", _NSCC, "and now - self.last_dec_time > self.base_rtt:", "and True:", ("mrc_nscc", "nscc_reference")),
    Mutant("a decrease has no floor", _NSCC, "max(1 - p.gamma * (mean - p.target_delay) / mean, p.max_md_jump)", "1 - p.gamma * (mean - p.target_delay) / mean", ("mrc_nscc", "nscc_reference")),
    Mutant("the window has no cap", "hosts/mrc/cc/windowed.py", "min(max(cwnd, float(self.mtu)), self.max_cwnd)", "max(cwnd, float(self.mtu))", ("mrc_nscc", "nscc_reference")),
    Mutant("quick adapt forgets its gate", _NSCC, "self.achieved_bytes < self.max_cwnd / 2.0**p.qa_gate", "self.achieved_bytes < self.max_cwnd", ("mrc_nscc", "nscc_reference")),
    Mutant("timers fire early", "hosts/rdma/timers.py", "        if deadline > now:\n            self.arm(deadline)\n            return False\n", "", ("timers",)),
    Mutant("a write reaches beyond its region", "hosts/rdma/memory.py", "            if offset >= 0 and end <= region.length:\n", "            if end <= region.length:\n", ("mrc_memory", "mrc_verbs", "roce_endpoint")),
    Mutant("a full completion queue loses silently", "hosts/rdma/completion.py", "            self.overflowed = True\n            return False", "            return True", ("mrc_completions", "mrc_verbs")),
    # --- virtual time -------------------------------------------------------------------------------------------------
    Mutant("a queue has no end", "sim/switches/port.py", "        elif self._backlog + (frame.size if rate else 1) > self._depth:", "        elif False:", ("sim_bytes", "sim_nic")),
    Mutant("the control queue has no end", "sim/switches/port.py", "            if self._control_free - now >= self._control_longest:", "            if False:", ("sim_bytes",)),
    Mutant("a small packet takes the link as long as a full one", "sim/switches/port.py", "max(now, busy_until) + serialization_ticks(frame.size, rate) if rate", "max(now, busy_until) + self._interval if rate", ("sim_bytes",)),
    Mutant("marks begin with the first packet that waits", "sim/switches/port.py", "        self._ecn_min = unit * queue.ecn_min\n", "        self._ecn_min = 0\n", ("sim_bytes",)),
    Mutant("a switch that stood still trims by the queue that it lost", "sim/switches/port.py", "        self.waiting = self._backlog = self.register = 0\n", "        self.waiting = self._backlog = 0\n", ("sim_faults",)),
    Mutant("a switch forwards what another uSID is for", "sim/switches/switch.py", "        if here != self.usid:\n", "        if False:\n", ("sim_faults", "sim_world")),
    Mutant("frames on a cable that is cut arrive", "sim/links/cable.py", "        if now - self.delay < self.clear_since:\n", "        if now < self.clear_since:\n", ("sim_faults",)),
    Mutant("a cable's delay is counted twice", "sim/links/cable.py", "        self._clock.schedule(at + self.delay, frame)\n", "        self._clock.schedule(at + 2 * self.delay, frame)\n", ("sim_nic",)),
    Mutant("a fault counts frames that it does not match", "sim/links/faults.py", "        if not (self._matches.always or self._matches(frame)):\n            return frame\n", "", ("sim_faults",)),
    Mutant("what is due together happens the other way round", "sim/clock.py", "            if pending[middle].due <= when:\n", "            if pending[middle].due < when:\n", ("sim_clock",)),
    Mutant("a NIC port sends faster than its link", "sim/nic.py", "        port.free_at = now + serialization_ticks(size, port.bits_per_second)\n", "        port.free_at = now\n", ("sim_nic",)),
    Mutant("a dead switch comes back with its counters", "sim/switches/switch.py", "        self.erase()\n        self._clear_counters()\n", "        self.erase()\n", ("sim_faults",)),
    # --- RoCE ---------------------------------------------------------------------------------------------------------
    Mutant("each packet of a gap draws a NAK", "hosts/roce/responder.py", "        if self._nak_sent:\n            return\n        self._nak_sent = not", "        self._nak_sent = not", ("roce_endpoint",)),
    Mutant("a duplicate is not acknowledged again", "hosts/roce/responder.py", "            self.qp.stats.duplicate_packets += 1\n            self.qp.acknowledge(packet.port)\n", "            self.qp.stats.duplicate_packets += 1\n", ("roce_endpoint",)),
    Mutant("every mark draws a CNP", "hosts/roce/responder.py", "        if now - self._cnp_at >= self._cnp_interval:\n", "        if True:\n", ("roce_endpoint",)),
    Mutant("an ACK that overtakes the resending is ignored", "hosts/roce/requestor.py", "        if self.next < until:  # retransmitted although the first copy arrived\n            self.next = until\n", "        if False:\n            self.next = until\n", ("roce_endpoint",)),
    Mutant("progress gives no retries back", "hosts/roce/requestor.py", "        self._retries = 0\n        if self._recovery", "        if self._recovery", ("roce_endpoint",)),
    Mutant("the window of RoCE is one packet too large", "hosts/roce/requestor.py", "return self.next < self.end and self.next - self.una < self._limit", "return self.next < self.end and self.next - self.una <= self._limit", ("roce_endpoint",)),
    Mutant("the last packet of a message asks for no ACK", "hosts/roce/requestor.py", "            last\n            or seq % self._ack_every == 0", "            seq % self._ack_every == 0", ("roce_endpoint",)),
    Mutant("a QP is not paced", "hosts/roce/requestor.py", "            self.next_at = max(self.next_at, now - _PACING_CREDIT * cost) + cost\n", "            pass\n", ("roce_endpoint", "roce_dcqcn")),
    Mutant("DCQCN never recovers", "hosts/roce/cc/dcqcn.py", "        self.current = (self.current + self.target) / 2\n", "        self.target = self.current\n", ("roce_dcqcn",)),
)  # fmt: skip
"""All of them."""
