// How tokens become text: a separator, then regular expressions and replacements in order; Joining of joining.py.

export function join({ separator, rules }, tokens) {
  return rules.reduce((text, [pattern, replacement]) => replaceAll(text, pattern, replacement), tokens.join(separator));
}

// Whether the pattern matches the whole text.
export function matchesWhole(pattern, text) {
  return new RegExp(`^(?:${pattern})$`, "u").test(text);
}

// Replacements are Python's: \1 is the first group.
function replaceAll(text, pattern, replacement) {
  return text.replace(new RegExp(pattern, "gu"), (...found) =>
    replacement.replace(/\\(\d|\\)/g, (_, what) => (what === "\\" ? what : found[Number(what)] ?? "")),
  );
}
