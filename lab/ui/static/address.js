// The destination address that a packet of a path begins with: the locator, and a uSID for every switch of the path.

export function address(layout, from, to, plane, uplink) {
  const host = (name) => layout.hosts.find((each) => each.name === name), [source, target] = [host(from), host(to)];
  if (!source || !target || layout.switches.some(({ tier }) => tier === "t2")) return "";
  const usid = (tier, number) => layout.switches.find(({ name }) => name === `${tier}-p${plane}-${number}`)?.usid;
  const list = source.group === target.group ? [usid("t0", source.group)] : [usid("t0", source.group), usid("t1", uplink), usid("t0", target.group)];
  if (list.includes(undefined)) return "chosen by the switches' hash";
  return `${layout.locator}:${[...list, target.downlinks[layout.planes.indexOf(plane)]].join(":")}::`;
}
