// Initials and finals to syllables, and their times; equals syllables.py.

import { join as joinBy, matchesWhole } from "./joining.js";

const INITIAL = "zh|ch|sh|[bpmfdtnlgkhjqxrzcs]";
const FINAL = "-?[a-zê]+[1-5]";
const JOINING = {
  separator: "  ",
  rules: [
    [`(^| )(${INITIAL})  (${FINAL})( |$)`, "\\1\\2\\3\\4"],
    [`(^| )(${INITIAL})iou(r?[1-5])`, "\\1\\2iu\\3"],
    [`(^| )(${INITIAL})uei(r?[1-5])`, "\\1\\2ui\\3"],
    [`(^| )(${INITIAL})uen(r?[1-5])`, "\\1\\2un\\3"],
    [`(^| )(${INITIAL})-i`, "\\1\\2i"],
    ["(^| )([jqx])v", "\\1\\2u"],
    ["(^| )i((?:n|ng)?r?[1-5])", "\\1yi\\2"],
    ["(^| )i", "\\1y"],
    ["(^| )u(r?[1-5])", "\\1wu\\2"],
    ["(^| )u", "\\1w"],
    ["(^| )v", "\\1yu"],
    ["  ", " "],
  ],
};

// Joins initials and finals; letters, which are capitals, become those of syllable models.
export function join(tokens) {
  return joinBy(JOINING, tokens).toLowerCase().split(/\s+/).filter(Boolean);
}

// Returns the times of syllables from those of their initials and finals.
export function merge(times, tokens) {
  const isInitial = tokens.map((token) => matchesWhole(INITIAL, token));
  const merged = [];
  times.forEach((time, i) => {
    if (!i || !isInitial[i - 1] || !matchesWhole(FINAL, tokens[i])) return merged.push(time);
    const { start, end, prob } = merged.pop();
    merged.push({
      start: Math.min(start, time.start),
      end: Math.max(end, time.end),
      prob: Math.min(prob, time.prob),
    });
  });
  return merged;
}
