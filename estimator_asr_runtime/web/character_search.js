// Finds the characters of a sentence by beam search: scores the language model's candidates with an n-gram model.
// Equivalent to character_search.py, one sentence at a time; sums are rounded to float32, as NumPy's are.
// Both searches return { characters, score, probs }: character ids, log probability, probability of each character.

import { IMPOSSIBLE } from "./lattice.js";

const fround = Math.fround;

// Returns the best candidate for each token, or -1 if a token has none.
export function takeFirst(lattice) {
  const positions = Array.from({ length: lattice.numTokens }, (_, i) => i);
  const exists = positions.map((i) => lattice.exists(i, 0));
  const logProbs = positions.map((i) => (exists[i] ? lattice.logProb(i, 0) : 0));
  return {
    characters: positions.map((i) => (exists[i] ? lattice.character(i, 0) : -1)),
    score: logProbs.reduce((sum, logProb) => sum + logProb, 0),
    probs: logProbs.map(Math.exp),
  };
}

// Searches with a beam of the `width` best sentences.
export function search(lattice, scorer, width) {
  const ended = run(lattice, scorer, width).map((sentence) => ({
    link: sentence.link,
    score: fround(sentence.score + scorer.finish(sentence.state)),
  }));
  const best = ended.reduce((highest, sentence) => (sentence.score > highest.score ? sentence : highest));
  const path = trace(best.link);
  const characters = path.map(({ place }, i) => lattice.character(i, place));
  const probs = path.map(({ place, before }, i) => {
    const scores = scoreAlternatives(lattice, scorer, characters, i, before);
    return softmax(scores)[place];
  });
  return { characters, score: best.score, probs };
}

// Returns `width` sentences { score, state, link }; a link has a candidate's index and the scorer's state before it.
function run(lattice, scorer, width) {
  let beam = Array.from({ length: width }, (_, i) => ({
    score: i ? IMPOSSIBLE : 0,
    state: scorer.start(),
    link: null,
  }));
  for (let position = 0; position < lattice.numTokens; position++) {
    const grown = beam.flatMap((sentence) => extend(lattice, scorer, sentence, position));
    grown.sort((a, b) => b.score - a.score); // a stable sort, as in character_search.py
    beam = grown.slice(0, width);
  }
  return beam;
}

// Returns the sentence extended by each candidate at a position.
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

// Returns the score of each candidate at a position if no other character of the sentence changes.
function scoreAlternatives(lattice, scorer, characters, position, before) {
  return Array.from({ length: lattice.count }, (_, place) => {
    const start = scorer.extend(before, lattice.character(position, place));
    return fround(lattice.logProb(position, place) + scoreContext(scorer, characters, position, start));
  });
}

// Adds the scores of the later characters that have a candidate in their context to the candidate's score.
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
  const exponentials = values.map((value) => Math.exp(value - highest));
  const sum = exponentials.reduce((total, value) => total + value, 0);
  return exponentials.map((value) => value / sum);
}
