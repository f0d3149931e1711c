// What the page asks of its server. The token of the address goes with everything.

const token = new URLSearchParams(location.search).get("token") ?? "";
const headers = { "X-Token": token };

export async function get(path) {
  const response = await fetch(path, { headers });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

export async function post(path, body) {
  try {
    const response = await fetch(path, { method: "POST", headers, body });
    return await response.json();
  } catch {
    return { error: "the page's process does not answer any more" };
  }
}

export function operate(operation, args) {
  return post("api/operation", JSON.stringify({ operation, arguments: args }));
}

export function follow(run, since) { return new EventSource(`api/live?run=${run}&since=${since}&token=${encodeURIComponent(token)}`); }

// A JSON merge patch (RFC 7396). What did not change stays the same object.
export function merge(before, patch) {
  const made = { ...before };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete made[name];
    else if (plain(value)) made[name] = merge(plain(before[name]) ? before[name] : {}, value);
    else made[name] = value;
  }
  return made;
}

function plain(value) { return typeof value === "object" && value !== null && !Array.isArray(value); }
