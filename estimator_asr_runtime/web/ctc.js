// CTC's log probabilities in each frame, and their best path; equivalent to best_path in beam_search.py.

// Wraps a Float32Array [num_frames, num_classes]; the blank is the last class.
export class LogProbs {
  constructor(data, numFrames, numClasses) {
    Object.assign(this, { data, numFrames, numClasses, blank: numClasses - 1 });
  }

  at(frame, index) {
    return this.data[frame * this.numClasses + index];
  }

  // Returns true if there are frames, and the highest value in each is possible in a distribution.
  isValid() {
    const tolerance = 0.01;
    const lowest = -Math.log(this.numClasses) - tolerance;
    const highest = Array.from({ length: this.numFrames }, (_, index) => Math.max(...this.frame(index))); // NaN if any value is NaN
    return this.numFrames > 0 && highest.every((value) => value > lowest && value < tolerance);
  }

  // Rounds to float32, so that the same probabilities underflow to 0 as in NumPy.
  prob(frame, index) {
    return Math.fround(Math.exp(this.at(frame, index)));
  }

  frame(index) {
    return this.data.subarray(index * this.numClasses, (index + 1) * this.numClasses);
  }
}

// Returns the best class of every frame, or the first of several equally good ones.
function bestClasses(logProbs) {
  return Array.from({ length: logProbs.numFrames }, (_, frame) => {
    const values = logProbs.frame(frame);
    let best = 0;
    for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
    return best;
  });
}

// Returns the best class of every frame, with repeats merged and blanks dropped (Graves et al., 2006).
export function bestPath(logProbs) {
  const best = bestClasses(logProbs);
  return best.filter((index, i) => index !== best[i - 1] && index < logProbs.blank);
}

// Returns the log probability of the best path.
export function bestPathScore(logProbs) {
  return bestClasses(logProbs).reduce((sum, index, frame) => sum + logProbs.at(frame, index), 0);
}
