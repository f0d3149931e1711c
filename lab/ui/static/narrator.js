// One line that tells what a fault does, from the events and totals of the frames: counted since it struck.

const SETTLED = 0.6; // seconds after a fault from which goodput is compared
const BEFORE = 1.5; // seconds before it that count as usual
const LONG = 60; // seconds after which a fault is no news
const STRUCK = {
  link_down: "Cable cut.", nic_port_down: "NIC port down.", nic_down: "NIC down.", plane_down: "Plane down.",
  switch_crash: "Switch crashed.", switch_freeze: "Switch frozen.", flap: "Cable flaps.", loss: "Cable loses packets.",
  silent_drop: "Cable drops packets silently.",
};

const sum = (goodput) => Object.values(goodput).reduce((a, b) => a + b, 0);
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function mean(frames, from, to) {
  const rates = frames.filter(({ t }) => t > from && t <= to).map(({ goodput }) => sum(goodput));
  return rates.length ? rates.reduce((a, b) => a + b, 0) / rates.length : null;
}

function last(frames, cursor, kinds) {
  const floor = frames[cursor].t - LONG;
  for (let n = cursor; n >= 0 && frames[n].t > floor; n--) {
    const event = frames[n].events.findLast(({ kind }) => kinds.includes(kind));
    if (event) return { event, frame: n };
  }
  return null;
}

// The line for the frame at the cursor; empty where nothing was struck lately.
export function narrate(frames, cursor) {
  const found = last(frames, cursor, ["fault.begin", "fault.end"]);
  if (!found) return idle(frames[cursor]);
  const { event, frame } = found, now = frames[cursor], since = frames.slice(Math.max(0, frame), cursor + 1);
  const events = since.flatMap((each) => each.events).filter(({ t }) => t >= event.t);
  const rtt = frames.slice(0, frame + 1).findLast(({ means }) => means[0])?.means[0]; // ms, before it
  const after = (t) => {
    const ms = (t - event.t) * 1e3;
    return `${ms < 0.95 ? `${(ms * 1e3).toFixed(0)} µs` : `${ms.toFixed(ms < 10 ? 1 : 0)} ms`}${rtt ? ` = ${(ms / rtt).toFixed(1)} RTT` : ""}`;
  };
  if (event.kind === "fault.end") {
    const back = events.find((each) => each.kind === "ev.state" && each.new === "GOOD");
    return `Healed.${back ? ` Path in use again after ${after(back.t)}.` : " Probes ask whether the path carries packets again."}`;
  }
  const said = [STRUCK[event.fault_kind] ?? `${event.text}.`];
  const base = frames[Math.max(0, frame - 1)].totals;
  const lost = now.totals.lost - base.lost, again = now.totals["sent again"] - base["sent again"];
  if (lost) said.push(`${plural(lost, "packet")} lost, ${again >= lost ? "all sent again" : `${again} sent again`}.`);
  const out = events.filter((each) => each.kind === "ev.state" && each.old === "GOOD");
  if (out.length) said.push(`${out.length > 1 ? `${out.length} paths` : "Path"} out of use ${out[0].t - event.t < 5e-5 ? "at once: the port lost its carrier" : `after ${after(out[0].t)}`}.`);
  else if (sum(now.goodput)) said.push("Nobody has told the senders yet.");
  const usual = mean(frames, event.t - BEFORE, event.t), present = mean(frames, event.t + SETTLED, now.t);
  if (usual && present !== null) {
    const change = (present / usual - 1) * 100;
    said.push(`Goodput ${Math.abs(change) < 0.05 ? "as before" : `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(1)} %`}.`);
  }
  return said.join(" ");
}

function idle(frame) {
  const senders = new Set(frame.qps.map(([host, , peer]) => `${host} → ${peer}`)), paths = Object.values(frame.evs).flat();
  if (!senders.size || !sum(frame.goodput)) return "";
  if (paths.length <= senders.size) return `${[...senders].slice(0, 2).join(", ")}: all packets take one path, which the switches' hash chose.`;
  return `${[...senders].slice(0, 2).join(", ")}: every packet takes its own path, ${paths.filter((ev) => ev[3] === "GOOD").length} of ${paths.length} in use.`;
}
