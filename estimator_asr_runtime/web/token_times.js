// Finds when each token was spoken, by the best CTC path through the tokens (Viterbi); equivalent to token_times.py.

const LOWEST = -1e9; // log probability of an impossible path

// Returns { start, end, prob } for each token: its first frame, the frame after its last one, and its highest
// probability in these frames. There must be one frame per token, and one more before each repeated token.
export function align(logProbs, ids) {
  const states = Array(2 * ids.length + 1).fill(logProbs.blank); // blank, token, blank, ..., token, blank
  ids.forEach((id, i) => (states[2 * i + 1] = id));
  const path = trace(...findMoves(logProbs, states), logProbs.numFrames);
  const times = ids.map(() => ({ start: -1, end: 0, highest: LOWEST }));
  path.forEach((state, frame) => {
    if (state % 2) emit(times[(state - 1) / 2], frame, logProbs.at(frame, states[state]));
  });
  return times.map(({ start, end, highest }) => ({ start, end, prob: Math.fround(Math.exp(highest)) }));
}

function emit(token, frame, logProb) {
  if (token.start < 0) token.start = frame;
  token.end = frame + 1;
  token.highest = Math.max(token.highest, logProb);
}

// Returns each state's best move in each frame, [num_frames, num_states], and its final score.
function findMoves(logProbs, states) {
  const size = states.length;
  const moves = new Uint8Array(logProbs.numFrames * size);
  let scores = new Float32Array(size).fill(LOWEST, 1);
  for (let frame = 0; frame < logProbs.numFrames; frame++) {
    const after = new Float32Array(size);
    for (let state = 0; state < size; state++) {
      const move = findMove(scores, states, state);
      moves[frame * size + state] = move;
      after[state] = scores[state - move] + logProbs.at(frame, states[state]);
    }
    scores = after;
  }
  return [moves, scores];
}

// Returns by how many states the best path moved to reach a state; a blank between different tokens may be skipped.
function findMove(scores, states, state) {
  let move = 0;
  if (state > 0 && scores[state - 1] > scores[state]) move = 1;
  const maySkip = state > 1 && states[state] !== states[state - 2];
  return maySkip && scores[state - 2] > scores[state - move] ? 2 : move;
}

// Returns the states of the best path, which ends in one of the last two states.
function trace(moves, scores, numFrames) {
  const size = scores.length;
  let state = size - 1;
  if (state && scores[state - 1] > scores[state]) state -= 1;
  const path = Array(numFrames);
  for (let frame = numFrames - 1; frame >= 0; frame--) {
    path[frame] = state;
    state -= moves[frame * size + state];
  }
  return path;
}
