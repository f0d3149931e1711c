// What the page asks of its server. The token of the address goes with everything.

export { merge } from "./merge.js";

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
    return { error: "Connection to the lab lost" };
  }
}

export function operate(operation, args) {
  return post("api/operation", JSON.stringify({ operation, arguments: args }));
}

export function follow(run, since) { return new EventSource(`api/live?run=${run}&since=${since}&token=${encodeURIComponent(token)}`); }

export const share = null; // what this server shows has no address that others could open
