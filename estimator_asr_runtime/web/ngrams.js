// Scores tokens with weight * log p(token | state) from a back-off n-gram model; equivalent to NgramScorer in
// ngrams.py, which explains the arrays. A state stands for the longest suffix of a prefix that is a context in the model.

const fround = Math.fround;

export class NgramScorer {
  // `arrays` has typed arrays named as in BackOffArrays; keys are float64, which is exact for integers up to 2^53.
  constructor(arrays, order, startState, weight) {
    Object.assign(this, { arrays, startState, weight: fround(weight) });
    this.contextLength = order - 1; // a score depends on at most this many previous tokens
    this.numTokens = arrays.unigram_log_probs.length;
  }

  // Returns the state after <s>.
  start() {
    return this.startState;
  }

  // Returns a token's score given the longest known context, and the state after the token.
  extend(state, token) {
    const arrays = this.arrays;
    let weight = 0;
    let context = state;
    for (let i = 0; i < this.contextLength; i++) {
      const place = findKey(arrays.keys, context * this.numTokens + token);
      if (place >= 0) return [this.weigh(weight + arrays.log_probs[place]), arrays.next_states[place]];
      weight = fround(weight + arrays.back_off_weights[context]);
      context = arrays.back_off_states[context];
    }
    return [this.weigh(weight + arrays.unigram_log_probs[token]), arrays.unigram_states[token]];
  }

  // Returns the score of </s>.
  finish(state) {
    return this.weigh(this.arrays.end_log_probs[state]);
  }

  weigh(logProb) {
    return fround(this.weight * fround(logProb));
  }
}

// Returns the index of a key in an increasing array, or -1 if the key is missing.
function findKey(keys, wanted) {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (keys[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return keys[low] === wanted ? low : -1;
}
