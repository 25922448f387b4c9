// Converts tokens to the text of a transcript; without a language model, the text is the tokens. See writing.py.

import { search, takeFirst } from "./character_search.js";
import { matchesWhole } from "./joining.js";
import { Lattice } from "./lattice.js";
import { runOnSequences } from "./tensors.js";

const UNKNOWN_ID = 0;

// Returns { strings, score, probs } for each hypothesis; there is one string for each of its tokens.
export async function write(model, sentences) {
  if (!model.language) {
    return sentences.map((tokens) => ({ strings: tokens, score: 0, probs: tokens.map(() => 1) }));
  }
  const ids = sentences.map((tokens) => tokens.map((token) => model.languageIds.get(token) ?? UNKNOWN_ID));
  const results = await runOnSequences(model.ort, model.language, ids);
  return sentences.map((tokens, i) => spell(model, tokens, findCharacters(model, results[i], tokens.length)));
}

function findCharacters(model, { outputs, row }, numTokens) {
  const lattice = new Lattice(outputs, row, numTokens);
  if (!model.languageNgram) return takeFirst(lattice);
  return search(lattice, model.languageNgram, model.settings.language.beam_width);
}

function spell(model, tokens, { characters, score, probs }) {
  const foreign = tokens.map((token) => keepForeign(model, token));
  const strings = characters.map((index) => (index >= 0 ? model.characters[index] : ""));
  return {
    strings: strings.map((string, i) => foreign[i] ?? string),
    score,
    probs: probs.map((prob, i) => (foreign[i] === null ? prob : 1)),
  };
}

// Returns a token's text if it is not a syllable and the language model lacks it, otherwise null.
function keepForeign({ settings, languageIds }, token) {
  const isUnknown = (languageIds.get(token) ?? UNKNOWN_ID) === UNKNOWN_ID;
  if (!isUnknown || matchesWhole(settings.syllable_pattern, token)) return null;
  return settings.token_type === "toneless" ? token.toLowerCase() : token; // toneless models write letters in capitals
}
