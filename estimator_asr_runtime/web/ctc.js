// CTC's log probabilities, and the best path through them; equivalent to best_path in beam_search.py.

// Wraps a Float32Array [num_frames, num_classes]; the blank is the last class.
export class LogProbs {
  constructor(data, numFrames, numClasses) {
    Object.assign(this, { data, numFrames, numClasses, blank: numClasses - 1 });
  }

  at(frame, index) {
    return this.data[frame * this.numClasses + index];
  }

  // Returns true if there are frames, and each frame's highest value could be a log probability.
  isValid() {
    const tolerance = 0.01;
    const lowest = -Math.log(this.numClasses) - tolerance;
    const highest = Array.from({ length: this.numFrames }, (_, index) => Math.max(...this.frame(index))); // NaN if any value is NaN
    return this.numFrames > 0 && highest.every((value) => value > lowest && value < tolerance);
  }

  // Returns a probability rounded to float32, so that it underflows to 0 where NumPy's does.
  prob(frame, index) {
    return Math.fround(Math.exp(this.at(frame, index)));
  }

  frame(index) {
    return this.data.subarray(index * this.numClasses, (index + 1) * this.numClasses);
  }
}

// Returns the most probable class in each frame; if several are equally probable, the first of them.
function bestClasses(logProbs) {
  return Array.from({ length: logProbs.numFrames }, (_, frame) => {
    const values = logProbs.frame(frame);
    let best = 0;
    for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
    return best;
  });
}

// Returns the best class for each frame, with repeats merged and blanks removed (Graves et al., 2006).
export function bestPath(logProbs) {
  const best = bestClasses(logProbs);
  return best.filter((index, i) => index !== best[i - 1] && index < logProbs.blank);
}

// Returns the log probability of the best path.
export function bestPathScore(logProbs) {
  return bestClasses(logProbs).reduce((sum, index, frame) => sum + logProbs.at(frame, index), 0);
}
