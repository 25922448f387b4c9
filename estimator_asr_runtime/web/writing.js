// Tokens to what is written: by the language model, or as they are; equals writing.py.

import { search, takeFirst } from "./character_search.js";
import { matchesWhole } from "./joining.js";
import { Lattice } from "./lattice.js";
import { runOnSequences } from "./tensors.js";

const UNKNOWN_ID = 0;

// Writes the tokens of each hypothesis; returns an array of { strings, score, probs }, a string for each token.
export async function write(model, sentences) {
  if (!model.language) {
    return sentences.map((tokens) => ({ strings: tokens, score: 0, probs: tokens.map(() => 1) }));
  }
  const ids = sentences.map((tokens) => tokens.map((token) => model.languageIds.get(token) ?? UNKNOWN_ID));
  const found = await runOnSequences(model.ort, model.language, ids);
  return sentences.map((tokens, i) => spell(model, tokens, findCharacters(model, found[i], tokens.length)));
}

function findCharacters(model, { outputs, row }, numTokens) {
  const lattice = new Lattice(outputs, row, numTokens);
  if (!model.languageNgram) return takeFirst(lattice);
  return search(lattice, model.languageNgram, model.settings.language.beam_width);
}

function spell(model, tokens, { characters, score, probs }) {
  const kept = tokens.map((token) => keepForeign(model, token));
  const written = characters.map((each) => (each >= 0 ? model.characters[each] : ""));
  return {
    strings: written.map((each, i) => kept[i] ?? each),
    score,
    probs: probs.map((each, i) => (kept[i] === null ? each : 1)),
  };
}

// Returns what the language model lacks and is no syllable, as it is written: a letter; else null.
function keepForeign({ settings, languageIds }, token) {
  const isUnknown = (languageIds.get(token) ?? UNKNOWN_ID) === UNKNOWN_ID;
  if (!isUnknown || matchesWhole(settings.syllable_pattern, token)) return null;
  return settings.token_type === "toneless" ? token.toLowerCase() : token; // whose letters are capitals
}
