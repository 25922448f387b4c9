// Search for the characters of a sentence: the language model's candidates, scored with an n-gram model.
// Equals character_search.py, one sentence at a time; sums are float32 as there, where IMPOSSIBLE swallows digits.
// Returned are { characters, score, probs }: ids, the log probability, and the probability of each character.

import { IMPOSSIBLE } from "./lattice.js";

const fround = Math.fround;

// Returns the best candidate of each token; -1 where there is none.
export function takeFirst(lattice) {
  const positions = Array.from({ length: lattice.numTokens }, (_, i) => i);
  const exists = positions.map((i) => lattice.exists(i, 0));
  const logProbs = positions.map((i) => (exists[i] ? lattice.logProb(i, 0) : 0));
  return {
    characters: positions.map((i) => (exists[i] ? lattice.character(i, 0) : -1)),
    score: logProbs.reduce((sum, each) => sum + each, 0),
    probs: logProbs.map(Math.exp),
  };
}

// Keeps the `width` best sentences at each token.
export function search(lattice, scorer, width) {
  const ended = run(lattice, scorer, width).map((each) => ({
    link: each.link,
    score: fround(each.score + scorer.finish(each.state)),
  }));
  const best = ended.reduce((highest, each) => (each.score > highest.score ? each : highest));
  const path = trace(best.link);
  const characters = path.map(({ place }, i) => lattice.character(i, place));
  const probs = path.map(({ place, before }, i) => {
    const judged = judge(lattice, scorer, characters, i, before);
    return softmax(judged)[place];
  });
  return { characters, score: best.score, probs };
}

// Returns `width` sentences { score, state, link }; a link has the place of a candidate, and the state before it.
function run(lattice, scorer, width) {
  let beam = Array.from({ length: width }, (_, i) => ({
    score: i ? IMPOSSIBLE : 0,
    state: scorer.start(),
    link: null,
  }));
  for (let position = 0; position < lattice.numTokens; position++) {
    const grown = beam.flatMap((sentence) => extend(lattice, scorer, sentence, position));
    grown.sort((a, b) => b.score - a.score); // stable
    beam = grown.slice(0, width);
  }
  return beam;
}

// Returns the sentence with each candidate of a position.
function extend(lattice, scorer, { score, state, link }, position) {
  return Array.from({ length: lattice.count }, (_, place) => {
    const [added, after] = scorer.extend(state, lattice.character(position, place));
    const total = fround(fround(score + lattice.logProb(position, place)) + added);
    return { score: total, state: after, link: { previous: link, place, before: state } };
  });
}

function trace(link) {
  const path = [];
  for (let at = link; at; at = at.previous) path.push(at);
  return path.reverse();
}

// Scores each candidate of a position where all other characters of the sentence stay.
function judge(lattice, scorer, characters, position, before) {
  return Array.from({ length: lattice.count }, (_, place) => {
    const start = scorer.extend(before, lattice.character(position, place));
    return fround(lattice.logProb(position, place) + scoreContext(scorer, characters, position, start));
  });
}

// Adds to the score of a candidate those of the characters that have it as context.
function scoreContext(scorer, characters, position, [score, state]) {
  for (let i = position + 1; i <= position + scorer.contextLength; i++) {
    if (i === characters.length) return fround(score + scorer.finish(state));
    const [added, after] = scorer.extend(state, characters[i]);
    [score, state] = [fround(score + added), after];
  }
  return score;
}

function softmax(values) {
  const highest = Math.max(...values);
  const exponentials = values.map((each) => Math.exp(each - highest));
  const sum = exponentials.reduce((total, each) => total + each, 0);
  return exponentials.map((each) => each / sum);
}
