// The frames that the beam search reads; equals _select of beam_search.py.

const fround = Math.fround;

// Skips the frames whose blank is more probable than skipped_blank (1: none is). Returns searched, an array of
// frames { index, followsToken, blankProb, tokenIds, tokenProbs }, and skippedScore, of the blanks skipped.
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
    const tokenProbs = tokenIds.map((each) => logProbs.prob(index, each));
    searched.push({ index, followsToken: index - before === 1, blankProb, tokenIds, tokenProbs });
    before = index;
  }
  return { searched, skippedScore };
}

// Returns the places of the highest of the first `size` values, best first; of equal ones the first counts.
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
