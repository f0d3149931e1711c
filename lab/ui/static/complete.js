// What can stand at a place of a scenario, from its JSON schema: fields of a mapping, values of a field.
// YAML is followed as far as scenarios write it: blocks by their indentation, and {flow: mappings}.

const NAMES = { link: "cable", links: "cable", cables: "cable", element: "any", switch: "switch", host: "host", hosts: "host", from: "host", to: "host", source: "host", destination: "host", port: "port" };

// { from, options: [{ text, about }] }: what may replace the text from `from` to the caret.
export function complete(schema, text, caret, names = {}) {
  const here = place(text, caret);
  if (!here) return null;
  const { path, siblings, field, word } = here;
  const model = descend(schema, path, siblings);
  if (!model) return null;
  const options = field ? values(schema, model, field, names) : fields(schema, model, siblings);
  const begun = word.toLowerCase();
  const fitting = options.filter(({ text: option }) => option.toLowerCase().startsWith(begun) && option !== word);
  return fitting.length ? { from: caret - word.length, options: fitting } : null;
}

// --- the place of the caret ---------------------------------------------------------------------------------------------

function place(text, caret) {
  const before = text.slice(0, caret);
  if (/(^|\s)#[^\n]*$/.test(before)) return null;
  const open = unclosed(before);
  const begin = open.length ? open[0].at : caret;
  const start = before.lastIndexOf("\n", begin - 1) + 1;
  const block = blockPath(text.slice(0, start), before.slice(start, begin));
  const path = [...block.path];
  let own = block.siblings, tail = before.slice(start);
  open.forEach(({ at }, n) => {
    const key = /([\w-]+):\s*$/.exec(n ? before.slice(open[n - 1].at + 1, at) : before.slice(start, at));
    if (key) path.push(key[1]);
    own = pairs(inside(text, at));
    tail = before.slice(at + 1);
  });
  if (open.length) tail = tail.slice(lastComma(tail) + 1);
  const value = /([\w-]+):\s+\[?([^\s,\[]*)$/.exec(tail), key = /(?:^|[\s,-])([\w-]*)$/.exec(tail);
  if (value) return { path, siblings: own, field: value[1], word: value[2] };
  return key ? { path, siblings: own, field: "", word: key[1] } : null;
}

function unclosed(before) {
  const open = [];
  for (let at = before.search(/\n[^\s#][^\n]*$/) + 1 || 0; at < before.length; at++) {
    if (before[at] === "{") open.push({ at });
    else if (before[at] === "}") open.pop();
  }
  return open;
}

function inside(text, at) {
  let depth = 0;
  for (let end = at; end < text.length; end++) {
    if (text[end] === "{") depth++;
    else if (text[end] === "}" && --depth === 0) return text.slice(at + 1, end);
  }
  return text.slice(at + 1).split("\n")[0];
}

function lastComma(tail) {
  let depth = 0, found = -1;
  for (let at = 0; at < tail.length; at++) {
    if ("{[".includes(tail[at])) depth++;
    else if ("}]".includes(tail[at])) depth--;
    else if (tail[at] === "," && depth === 0) found = at;
  }
  return found;
}

function pairs(text) {
  return Object.fromEntries([...text.matchAll(/([\w-]+):\s*([^\s,{}]*)/g)].map(([, name, value]) => [name, value]));
}

// Names of the mappings around a line, by indentation; lists count for nothing. And the fields beside it.
function blockPath(above, line) {
  const lines = above.split("\n").slice(0, -1);
  let indent = depth(line);
  const path = [], siblings = pairs(line);
  let item = /^\s*-\s/.test(line);
  for (const other of lines.reverse()) {
    if (!other.trim() || /^\s*#/.test(other)) continue;
    const far = depth(other);
    if (far === indent && !item) { Object.assign(siblings, pairs(other)); item = /^\s*-\s/.test(other); continue; }
    if (far < indent || (far <= indent && item && !/^\s*-/.test(other))) {
      const key = /^[\s-]*([\w-]+):\s*$/.exec(other);
      if (key) { path.unshift(key[1]); indent = depth(other); item = /^\s*-\s/.test(other); }
    }
  }
  return { path, siblings };
}

function depth(line) { return /^(\s*-\s+|\s*)/.exec(line)[0].length; }

// --- the schema ------------------------------------------------------------------------------------------------------------

function resolve(schema, node) { return node?.$ref ? schema.$defs[node.$ref.split("/").pop()] : node; }

// All mappings that a node of the schema can be.
function models(schema, node) {
  const found = resolve(schema, node);
  if (!found) return [];
  if (found.properties) return [found];
  return [...(found.anyOf ?? []), ...(found.oneOf ?? []), ...(found.items ? [found.items] : [])].flatMap((each) => models(schema, each));
}

function kindOf(schema, model) { return resolve(schema, model.properties.kind)?.const; }

function descend(schema, path, siblings) {
  let found = [schema];
  for (const name of path) found = found.flatMap((model) => models(schema, model.properties?.[name]));
  const chosen = found.filter((model) => kindOf(schema, model) === siblings.kind);
  return found.length ? (chosen.length ? chosen : found) : null;
}

function fields(schema, found, siblings) {
  const known = new Map();
  const single = found.length === 1 || siblings.kind;
  for (const model of found) {
    for (const [name, field] of Object.entries(model.properties)) {
      if (name in siblings && siblings[name] !== "") continue;
      if (!single && !["kind", "name"].includes(name)) continue; // which others there are depends on the kind
      const needed = model.required?.includes(name);
      known.set(name, { text: `${name}: `, about: `${field.description ?? resolve(schema, field)?.description ?? ""}${needed ? " (needed)" : ""}`.trim() });
    }
  }
  return [...known.values()];
}

function values(schema, found, field, names) {
  const options = new Map();
  for (const model of found) {
    const node = model.properties[field];
    if (!node) continue;
    for (const value of constants(schema, node)) options.set(String(value), { text: String(value), about: field === "kind" ? (model.description ?? "").split("\n")[0] : "" });
    for (const name of names[NAMES[field]] ?? []) options.set(name, { text: name, about: "" });
  }
  return [...options.values()];
}

function constants(schema, node) {
  const found = resolve(schema, node);
  if (!found) return [];
  if (found.const !== undefined) return [found.const];
  if (found.enum) return found.enum;
  if (found.type === "boolean") return [true, false];
  return [...(found.anyOf ?? []), ...(found.oneOf ?? []), ...(found.items ? [found.items] : [])].flatMap((each) => constants(schema, each));
}
