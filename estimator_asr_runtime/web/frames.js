// Selects the frames that the beam search reads; equivalent to _select in beam_search.py.

const fround = Math.fround;

// Skips frames whose blank is more probable than skipped_blank (1 skips none). Returns `searched`, an array of frames
// { index, followsToken, blankProb, tokenIds, tokenProbs }, and `skippedScore`, the log probability of blanks in all
// skipped frames.
export function selectFrames(decode, logProbs) {
  const searched = [];
  let skippedScore = 0;
  let before = -1;
  for (let index = 0; index < logProbs.numFrames; index++) {
    const blankProb = logProbs.prob(index, logProbs.blank);
    if (blankProb > fround(decode.skipped_blank)) {
      skippedScore += Math.log(blankProb);
      continue;
    }
    const tokenIds = findBest(logProbs.frame(index), logProbs.blank, decode.candidates);
    const tokenProbs = tokenIds.map((token) => logProbs.prob(index, token));
    searched.push({ index, followsToken: index - before === 1, blankProb, tokenIds, tokenProbs });
    before = index;
  }
  return { searched, skippedScore };
}

// Returns the indices of the `count` highest of the first `size` values, best first; equal values keep their order.
function findBest(values, size, count) {
  const best = [];
  for (let i = 0; i < size; i++) {
    if (best.length === count && !(values[i] > values[best[count - 1]])) continue;
    if (best.length === count) best.pop();
    let place = best.length;
    while (place && values[i] > values[best[place - 1]]) place--;
    best.splice(place, 0, i);
  }
  return best;
}
