// CTC prefix beam search of one utterance; equals beam_search.py, whose hashes are nodes of a tree here.
// Probabilities are scaled in every frame. Math.fround rounds as float32 does, so that the same prefixes vanish.

import { bestPath, bestPathScore } from "./ctc.js";
import { selectFrames } from "./frames.js";

const fround = Math.fround;

// Returns the most probable token sequences, at most beam_width and best first, of greedy decoding one:
// an array of { ids, score, acousticScore }. For scorers see ngrams.js.
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

// Returns the empty prefix; states are those of the scorers.
function makeFirst(blank, scorers) {
  const node = { parent: null, lastId: blank, children: new Map() };
  return { node, blankProb: 1, tokenProb: 0, bonus: 0, states: scorers.map((each) => each.start()) };
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
  const scored = candidates.map((each) => ({ each, score: scoreOf(each) })).filter(({ score }) => score > -Infinity);
  scored.sort((a, b) => b.score - a.score); // stable
  return scored.slice(0, decode.beam_width).map(({ each }) => enter(each));
}

// Returns the probabilities of the paths that end with a blank, which skipped frames are too, and with the token.
function splitEnds(prefix, frame) {
  const token = frame.followsToken ? prefix.tokenProb : 0;
  return { token, blank: fround(prefix.blankProb + fround(prefix.tokenProb - token)) };
}

// Returns the prefix after its last token, a blank, or its last token new in the prefix before it.
function keep(prefix, ends, place, places, frame, logProbs) {
  const { node } = prefix;
  const { token, blank } = ends[place];
  const parent = node.parent === null ? undefined : places.get(node.parent);
  let stay = token;
  if (parent !== undefined) stay = fround(stay + sumOf(ends[parent], node.parent.lastId !== node.lastId));
  const tokenProb = fround(stay * logProbs.prob(frame.index, node.lastId));
  return { ...prefix, tokenProb, blankProb: fround(fround(blank + token) * frame.blankProb) };
}

// A token that equals the last one is new after a blank alone.
function sumOf({ token, blank }, differs) {
  return differs ? fround(blank + token) : blank;
}

// Returns the prefix with another token; null if it is in the beam already or impossible.
function extend(prefix, ends, token, prob, places) {
  const { node } = prefix;
  const tokenProb = fround(sumOf(ends, node.lastId !== token) * prob);
  if (tokenProb === 0 || places.has(node.children.get(token))) return null;
  return { ...prefix, tokenProb, blankProb: 0, token };
}

function addBonus(decode, scorers, grown, prefix) {
  const found = scorers.map((scorer, i) => scorer.extend(prefix.states[i], grown.token));
  const added = found.reduce((sum, [score]) => fround(sum + score), fround(decode.token_bonus));
  return { ...grown, bonus: fround(prefix.bonus + added), states: found.map(([, state]) => state) };
}

function scoreOf(prefix) {
  return fround(fround(Math.log(fround(prefix.blankProb + prefix.tokenProb))) + prefix.bonus);
}

// Returns a prefix at its own node; a prefix that left the beam and comes back has the same one.
function enter({ token, ...prefix }) {
  if (token === undefined) return prefix;
  const { children } = prefix.node;
  if (!children.has(token)) children.set(token, { parent: prefix.node, lastId: token, children: new Map() });
  return { ...prefix, node: children.get(token) };
}

// Divides all probabilities by the highest one, and returns its logarithm.
function normalise(beam) {
  const norm = Math.max(...beam.map((each) => fround(each.blankProb + each.tokenProb)));
  for (const each of beam) {
    each.blankProb = fround(each.blankProb / norm);
    each.tokenProb = fround(each.tokenProb / norm);
  }
  return Math.log(norm);
}

function finish(beam, scorers, scale) {
  const found = beam.map((prefix) => {
    const acousticScore = Math.log(fround(prefix.blankProb + prefix.tokenProb)) + scale;
    const ends = scorers.reduce((sum, scorer, i) => sum + scorer.finish(prefix.states[i]), prefix.bonus);
    return { ids: trace(prefix.node), score: fround(acousticScore + ends), acousticScore };
  });
  return found.sort((a, b) => b.score - a.score);
}

// Returns the tokens of a prefix, first to last.
function trace(node) {
  const ids = [];
  for (let at = node; at.parent; at = at.parent) ids.push(at.lastId);
  return ids.reverse();
}
