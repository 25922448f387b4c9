// The language model's candidates for each token of one sentence, best first; see Lattice in character_search.py.

export const IMPOSSIBLE = -1e9; // log probability of a missing candidate
const LOWEST = -1e4; // lower log probabilities in the graph's output mark missing candidates

export class Lattice {
  // `outputs` are the language graph's, [rows, length, count]; the sentence is in row `row` and has numTokens tokens.
  constructor(outputs, row, numTokens) {
    const [, length, count] = outputs.characters.dims;
    const size = length * count;
    this.characters = outputs.characters.data.subarray(row * size, (row + 1) * size);
    this.logProbs = outputs.log_probs.data.subarray(row * size, (row + 1) * size);
    Object.assign(this, { count, numTokens });
  }

  exists(position, place) {
    return this.logProbs[position * this.count + place] > LOWEST;
  }

  character(position, place) {
    return this.exists(position, place) ? this.characters[position * this.count + place] : 0;
  }

  logProb(position, place) {
    return this.exists(position, place) ? this.logProbs[position * this.count + place] : IMPOSSIBLE;
  }
}
