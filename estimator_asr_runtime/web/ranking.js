// Ranks transcripts, and turns probabilities into confidences; equivalent to ranking.py.

const fround = Math.fround;
const LOWEST_PROB = fround(1e-6); // keeps the log odds finite

// Ranks transcripts by the total probability of all hypotheses that have the same text. Scores are log
// probabilities; hypotheses without a finite score are ignored. Returns an array of { transcript, score, place },
// where `place` is the index of the best hypothesis with this text.
export function rank(scores, transcripts) {
  const groups = new Map();
  transcripts.forEach((text, place) => {
    if (Number.isFinite(scores[place])) groups.set(text, [...(groups.get(text) ?? []), place]);
  });
  if (!groups.size) throw new Error("no transcript has a finite score. Export the model again.");
  const ranked = [...groups].map(([transcript, places]) => {
    const place = places.reduce((best, other) => (scores[other] > scores[best] ? other : best));
    const sum = places.reduce((total, other) => total + Math.exp(scores[other] - scores[place]), 0);
    return { transcript, score: fround(scores[place] + Math.log(sum)), place };
  });
  return ranked.sort((a, b) => b.score - a.score || a.place - b.place);
}

// Returns a confidence calibrated from a probability (Platt 1999).
export function calibrate(prob, decode) {
  const clipped = Math.min(Math.max(fround(prob), LOWEST_PROB), fround(1 - LOWEST_PROB));
  const logOdds = Math.log(clipped) - Math.log1p(-clipped);
  return 1 / (1 + Math.exp(-(decode.confidence_scale * logOdds + decode.confidence_offset)));
}
