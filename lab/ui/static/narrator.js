// One line that tells what a fault does, from the events and totals of the frames: counted since it began.

const SETTLED = 0.6; // seconds after a fault from which goodput is compared
const BEFORE = 1.5; // seconds before it that count as usual
const LONG = 60; // seconds after which a fault is no news
const AT_ONCE = 0.05; // milliseconds
const BEGUN = {
  link_down: "Cable cut.", nic_port_down: "NIC port down.", nic_down: "NIC down.", plane_down: "Plane down.",
  switch_crash: "Switch crashed.", switch_freeze: "Switch frozen.", flap: "Cable flaps.", loss: "Cable loses packets.",
  silent_drop: "Cable drops packets silently.",
};
const CLEARED = {
  link_down: "Cable restored.", nic_port_down: "NIC port up again.", nic_down: "NIC up again.", plane_down: "Plane up again.",
  switch_crash: "Switch up again.", switch_freeze: "Switch running again.", flap: "Cable stable again.", loss: "Cable no longer loses packets.",
  silent_drop: "Cable no longer drops packets.",
};

const sum = (goodput) => Object.values(goodput).reduce((a, b) => a + b, 0);
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function mean(frames, from, to) {
  const rates = frames.filter(({ t }) => t > from && t <= to).map(({ goodput }) => sum(goodput));
  return rates.length ? rates.reduce((a, b) => a + b, 0) / rates.length : null;
}

// Goodput as it usually was: the median, so that a start a moment ago counts for nothing.
function median(frames, from, to) {
  const rates = frames.filter(({ t }) => t > from && t <= to).map(({ goodput }) => sum(goodput)).filter(Boolean).sort((a, b) => a - b);
  return rates[rates.length >> 1] ?? null;
}

function last(frames, cursor, kinds) {
  const floor = frames[cursor].t - LONG;
  for (let n = cursor; n >= 0 && frames[n].t > floor; n--) {
    const event = frames[n].events.findLast(({ kind }) => kinds.includes(kind));
    if (event) return { event, frame: n };
  }
  return null;
}

// The line for the frame at the cursor; empty where no fault began or ended lately.
export function narrate(frames, cursor) {
  const found = last(frames, cursor, ["fault.begin", "fault.end"]);
  if (!found) return idle(frames[cursor]);
  const { event, frame } = found, now = frames[cursor], since = frames.slice(Math.max(0, frame), cursor + 1);
  const events = since.flatMap((each) => each.events).filter(({ t }) => t >= event.t);
  const rtt = frames.slice(0, frame + 1).findLast(({ means }) => means[0])?.means[0]; // ms, before it
  const after = (t) => {
    const ms = (t - event.t) * 1e3;
    if (ms < AT_ONCE) return "at once";
    return `after ${ms < 0.95 ? `${(ms * 1e3).toFixed(0)} µs` : `${ms.toFixed(ms < 10 ? 1 : 0)} ms`}${rtt ? ` = ${(ms / rtt).toFixed(1)} RTT` : ""}`;
  };
  const others = inForce(frames, cursor).filter((name) => name !== event.fault);
  const also = others.length ? ` Still in force, with effects of its own: ${others.join(", ")}.` : "";
  if (event.kind === "fault.end") return ended(frames, cursor, event, events, after) + also;
  const said = [BEGUN[event.fault_kind] ?? `${event.text}.`], sprays = sprayed(now);
  const base = frames[Math.max(0, frame - 1)].totals, flows = sum(now.goodput);
  const lost = now.totals.lost - base.lost, again = now.totals.retransmitted - base.retransmitted;
  const usual = median(frames, event.t - BEFORE, event.t), present = mean(frames, event.t + SETTLED, now.t);
  if (lost) said.push(`${plural(lost, "packet")} lost, ${again < lost ? `${again} retransmitted` : usual && present !== null && !flows ? "retransmitted and lost again" : "all retransmitted"}.`);
  const out = events.filter((each) => each.kind === "ev.state" && each.old === "GOOD");
  if (out.length) said.push(`${out.length > 1 ? `${out.length} paths` : "Path"} out of use ${after(out[0].t)}${out[0].t - event.t < AT_ONCE / 1e3 ? ": the port lost its carrier" : ""}.`);
  else if (flows && sprays) said.push("Senders have not detected it yet.");
  if (usual && present !== null) {
    const change = (present / usual - 1) * 100;
    if (!flows) said.push("Goodput is zero.");
    else said.push(`Goodput ${Math.abs(change) < 0.05 ? "unchanged" : `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(1)} %`}.`);
  }
  return said.join(" ") + also;
}

// Names of the faults that began and have not ended.
function inForce(frames, cursor) {
  const names = new Set();
  for (const { kind, fault } of frames.slice(0, cursor + 1).flatMap((each) => each.events)) {
    if (kind === "fault.begin") names.add(fault);
    if (kind === "fault.end") names.delete(fault);
  }
  return [...names];
}

// The line after a fault was cleared: who uses its path again, and since when.
function ended(frames, cursor, event, events, after) {
  const begun = frames.slice(0, cursor + 1).flatMap((each) => each.events).findLast(({ kind, fault }) => kind === "fault.begin" && fault === event.fault);
  const said = CLEARED[begun?.fault_kind] ?? "Fault cleared.", now = frames[cursor];
  const back = events.find((each) => each.kind === "ev.state" && each.new === "GOOD");
  if (back) return `${said} Path in use again ${after(back.t)}.`;
  const out = Object.values(now.evs).flat().some(([, , , state]) => state === "ASSUMED_BAD");
  if (out) return `${said} Probes test whether the path works again.`;
  if (sprayed(now) || !now.qps.length) return said;
  return `${said} ${sum(now.goodput) ? "The queue pair is sending again." : "The queue pair resumes at its next timeout."}`;
}

const sprayed = ({ evs, qps }) => Object.values(evs).flat().length > new Set(qps.map(([host, , peer]) => `${host} ${peer}`)).size;

function idle(frame) {
  const senders = new Set(frame.qps.map(([host, , peer]) => `${host} → ${peer}`)), paths = Object.values(frame.evs).flat();
  if (!senders.size || !sum(frame.goodput)) return "";
  if (paths.length <= senders.size) return `${[...senders].slice(0, 2).join(", ")}: all packets take one path, which the switches' hash chose.`;
  return `${[...senders].slice(0, 2).join(", ")}: every packet takes its own path, ${paths.filter((ev) => ev[3] === "GOOD").length} of ${paths.length} in use.`;
}
