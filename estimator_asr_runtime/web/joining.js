// Joins tokens with a separator, then applies regular expressions and replacements in order; see Joining in joining.py.

export function join({ separator, rules }, tokens) {
  return rules.reduce((text, [pattern, replacement]) => replaceAll(text, pattern, replacement), tokens.join(separator));
}

// Returns true if the pattern matches the whole text.
export function matchesWhole(pattern, text) {
  return new RegExp(`^(?:${pattern})$`, "u").test(text);
}

// Replacements are in Python's syntax: \1 is the first group.
function replaceAll(text, pattern, replacement) {
  return text.replace(new RegExp(pattern, "gu"), (...groups) =>
    replacement.replace(/\\(\d|\\)/g, (_, escaped) => (escaped === "\\" ? escaped : groups[Number(escaped)] ?? "")),
  );
}
