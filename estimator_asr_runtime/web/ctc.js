// Log probabilities of CTC, frame by frame, and their best path; equals best_path of beam_search.py.

// Of Float32Array [num_frames, num_classes]; the blank is the last class.
export class LogProbs {
  constructor(data, numFrames, numClasses) {
    Object.assign(this, { data, numFrames, numClasses, blank: numClasses - 1 });
  }

  at(frame, index) {
    return this.data[frame * this.numClasses + index];
  }

  // Whether there is a frame, and the highest value of each can be that of a distribution.
  isValid() {
    const tolerance = 0.01;
    const lowest = -Math.log(this.numClasses) - tolerance;
    const highest = Array.from({ length: this.numFrames }, (_, index) => Math.max(...this.frame(index))); // NaN stays
    return this.numFrames > 0 && highest.every((each) => each > lowest && each < tolerance);
  }

  // float32, as NumPy has it: what becomes 0 there is 0 here.
  prob(frame, index) {
    return Math.fround(Math.exp(this.at(frame, index)));
  }

  frame(index) {
    return this.data.subarray(index * this.numClasses, (index + 1) * this.numClasses);
  }
}

// Returns the best class of every frame, the first of equal ones.
function bestClasses(logProbs) {
  return Array.from({ length: logProbs.numFrames }, (_, frame) => {
    const values = logProbs.frame(frame);
    let best = 0;
    for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
    return best;
  });
}

// Returns the best class of every frame, repeats merged, blanks dropped (Graves et al., 2006).
export function bestPath(logProbs) {
  const best = bestClasses(logProbs);
  return best.filter((each, i) => each !== best[i - 1] && each < logProbs.blank);
}

// Returns the log probability of the best path.
export function bestPathScore(logProbs) {
  return bestClasses(logProbs).reduce((sum, each, frame) => sum + logProbs.at(frame, each), 0);
}
