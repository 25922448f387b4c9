// CTC prefix beam search of one utterance; equivalent to beam_search.py, but with tree nodes instead of hashes.
// Probabilities are rescaled in every frame, and rounded to float32, so that they underflow where NumPy's do.

import { bestPath, bestPathScore } from "./ctc.js";
import { selectFrames } from "./frames.js";

const fround = Math.fround;

// Returns the most probable token sequences, best first (up to beam_width, or one if greedy), as an array of
// { ids, score, acousticScore }. For an example of a scorer, see ngrams.js.
export function search(decode, logProbs, scorers) {
  if (decode.decoding === "greedy") {
    const score = bestPathScore(logProbs);
    return [{ ids: bestPath(logProbs), score, acousticScore: score }];
  }
  const { searched, skippedScore } = selectFrames(decode, logProbs);
  let beam = [makeFirst(logProbs.blank, scorers)];
  let scale = skippedScore;
  for (const frame of searched) {
    beam = step(decode, scorers, frame, beam, logProbs);
    scale += normalise(beam);
  }
  return finish(beam, scorers, scale);
}

// Returns the empty prefix; `states` has one state for each scorer.
function makeFirst(blank, scorers) {
  const node = { parent: null, lastId: blank, children: new Map() };
  return { node, blankProb: 1, tokenProb: 0, bonus: 0, states: scorers.map((scorer) => scorer.start()) };
}

// Returns the best prefixes after one more frame, best first.
function step(decode, scorers, frame, beam, logProbs) {
  const candidates = [];
  const places = new Map(beam.map((prefix, place) => [prefix.node, place]));
  const ends = beam.map((prefix) => splitEnds(prefix, frame));
  beam.forEach((prefix, place) => {
    candidates.push(keep(prefix, ends, place, places, frame, logProbs));
    frame.tokenIds.forEach((token, rank) => {
      const grown = extend(prefix, ends[place], token, frame.tokenProbs[rank], places);
      if (grown) candidates.push(addBonus(decode, scorers, grown, prefix));
    });
  });
  const scored = candidates.map((prefix) => ({ prefix, score: scoreOf(prefix) })).filter(({ score }) => score > -Infinity);
  scored.sort((a, b) => b.score - a.score); // a stable sort, as in beam_search.py
  return scored.slice(0, decode.beam_width).map(({ prefix }) => enter(prefix));
}

// Returns the probabilities of the paths that end with the last token or a blank; skipped frames count as blanks.
function splitEnds(prefix, frame) {
  const token = frame.followsToken ? prefix.tokenProb : 0;
  return { token, blank: fround(prefix.blankProb + fround(prefix.tokenProb - token)) };
}

// Returns the unchanged prefix after another frame: the prefix lasts one frame longer, or its parent grows into it.
function keep(prefix, ends, place, places, frame, logProbs) {
  const { node } = prefix;
  const { token, blank } = ends[place];
  const parent = node.parent === null ? undefined : places.get(node.parent);
  let stay = token;
  if (parent !== undefined) stay = fround(stay + sumOf(ends[parent], node.parent.lastId !== node.lastId));
  const tokenProb = fround(stay * logProbs.prob(frame.index, node.lastId));
  return { ...prefix, tokenProb, blankProb: fround(fround(blank + token) * frame.blankProb) };
}

// A token that equals the last one extends a prefix only after a blank.
function sumOf({ token, blank }, differs) {
  return differs ? fround(blank + token) : blank;
}

// Returns the prefix extended by a token, or null if the result is impossible or already in the beam.
function extend(prefix, ends, token, prob, places) {
  const { node } = prefix;
  const tokenProb = fround(sumOf(ends, node.lastId !== token) * prob);
  if (tokenProb === 0 || places.has(node.children.get(token))) return null;
  return { ...prefix, tokenProb, blankProb: 0, token };
}

function addBonus(decode, scorers, grown, prefix) {
  const results = scorers.map((scorer, i) => scorer.extend(prefix.states[i], grown.token));
  const added = results.reduce((sum, [score]) => fround(sum + score), fround(decode.token_bonus));
  return { ...grown, bonus: fround(prefix.bonus + added), states: results.map(([, state]) => state) };
}

function scoreOf(prefix) {
  return fround(fround(Math.log(fround(prefix.blankProb + prefix.tokenProb))) + prefix.bonus);
}

// Adds a new prefix to the tree; a prefix that was in the beam before gets its former node.
function enter({ token, ...prefix }) {
  if (token === undefined) return prefix;
  const { children } = prefix.node;
  if (!children.has(token)) children.set(token, { parent: prefix.node, lastId: token, children: new Map() });
  return { ...prefix, node: children.get(token) };
}

// Divides all probabilities by the highest one, and returns the logarithm of that one.
function normalise(beam) {
  const norm = Math.max(...beam.map((prefix) => fround(prefix.blankProb + prefix.tokenProb)));
  for (const prefix of beam) {
    prefix.blankProb = fround(prefix.blankProb / norm);
    prefix.tokenProb = fround(prefix.tokenProb / norm);
  }
  return Math.log(norm);
}

function finish(beam, scorers, scale) {
  const hypotheses = beam.map((prefix) => {
    const acousticScore = Math.log(fround(prefix.blankProb + prefix.tokenProb)) + scale;
    const ends = scorers.reduce((sum, scorer, i) => sum + scorer.finish(prefix.states[i]), prefix.bonus);
    return { ids: trace(prefix.node), score: fround(acousticScore + ends), acousticScore };
  });
  return hypotheses.sort((a, b) => b.score - a.score);
}

// Returns the tokens of a prefix, in order.
function trace(node) {
  const ids = [];
  for (let at = node; at.parent; at = at.parent) ids.push(at.lastId);
  return ids.reverse();
}
