// Joins initials and finals into syllables, and merges their times; equivalent to joining.py.

import { join as joinBy, matchesWhole } from "./joining.js";

// Joins initials and finals by the rules in the settings; letters are lowercased, as in syllable models.
export function join({ joining }, tokens) {
  return joinBy(joining, tokens).toLowerCase().split(/\s+/).filter(Boolean);
}

// Returns the times of syllables, merged from the times of their initials and finals.
export function merge({ initial, final }, times, tokens) {
  const isInitial = tokens.map((token) => matchesWhole(initial, token));
  const merged = [];
  times.forEach((time, i) => {
    if (!i || !isInitial[i - 1] || !matchesWhole(final, tokens[i])) return merged.push(time);
    const { start, end, prob } = merged.pop();
    merged.push({
      start: Math.min(start, time.start),
      end: Math.max(end, time.end),
      prob: Math.min(prob, time.prob),
    });
  });
  return merged;
}
