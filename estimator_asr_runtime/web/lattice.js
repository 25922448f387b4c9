// The language model's candidates of each token of one sentence, best first; equals Lattice of character_search.py.

export const IMPOSSIBLE = -1e9; // log probability where there are fewer candidates
const LOWEST = -1e4; // below it a log probability of the graph is that of no candidate

export class Lattice {
  // Takes a row of the outputs of the language graph, [rows, length, count], and the tokens of its sentence.
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
