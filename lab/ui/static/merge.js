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
