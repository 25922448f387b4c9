// Speech to text: acoustic model -> search -> language model -> transcript, times and confidences.
// Equivalent to recogniser.py, but without hotwords. It needs no browser, because the caller passes onnxruntime-web
// and a function that reads files to loadModel.

import { search } from "./beam_search.js";
import { bestPath, LogProbs } from "./ctc.js";
import { join } from "./joining.js";
import { punctuate } from "./marking.js";
import { calibrate, rank } from "./ranking.js";
import { check } from "./statuses.js";
import * as syllables from "./syllables.js";
import { runOnSequences } from "./tensors.js";
import { align } from "./token_times.js";
import { write } from "./writing.js";

export { loadModel } from "./model.js";

// Recognises a waveform, a Float32Array at the model's sample rate with full scale 1. Recogniser.recognise in
// recogniser.py explains the fields of the result.
export async function recognise(model, waveform) {
  const status = check(waveform, model.settings);
  if (status !== "ok") return punctuate(model, makeEmpty(status));
  const { ort, acoustic } = model;
  const outputs = await acoustic.run({ waveform: new ort.Tensor("float32", waveform, [1, waveform.length]) });
  const { data, dims } = outputs.log_probs;
  const logProbs = new LogProbs(data, dims[1], dims[2]);
  if (!logProbs.isValid()) throw new Error("the acoustic model returned no valid log probabilities. Export the model again.");
  let hypotheses = search(model.settings.acoustic, logProbs, model.acousticNgram ? [model.acousticNgram] : []);
  if (model.decoder) hypotheses = await attend(model, outputs.encoding, hypotheses);
  return punctuate(model, await describe(model, logProbs, hypotheses));
}

export function makeEmpty(status) {
  return {
    ...{ transcript: "", pinyin: "", greedy_pinyin: "", acoustic_score: 0, language_score: 0, confidence: 0 },
    status,
    characters: [],
    n_best: [{ transcript: "", score: 0 }],
  };
}

// Adds the attention decoder's weighted scores; returns the rescored hypotheses, best first.
async function attend(model, encoding, hypotheses) {
  const ids = hypotheses.map((hypothesis) => hypothesis.ids);
  const rows = await runOnSequences(model.ort, model.decoder, ids, { encoding });
  const weight = model.settings.acoustic.attention_weight;
  const added = rows.map(({ outputs, row }) => weight * outputs.scores.data[row]);
  const rescored = hypotheses.map((hypothesis, i) => ({
    ...hypothesis,
    score: Number.isNaN(added[i]) ? -Infinity : Math.fround(hypothesis.score + added[i]),
  }));
  return rescored.sort((a, b) => b.score - a.score);
}

async function describe(model, logProbs, hypotheses) {
  const { settings } = model;
  const tokens = hypotheses.map(({ ids }) => ids.map((id) => model.tokens[id]));
  const isJoined = settings.language !== null && settings.token_type === "initial_final";
  const units = isJoined ? tokens.map((row) => syllables.join(settings.syllables, row)) : tokens;
  const spellings = await write(model, units);
  const ranked = rankAll(settings, hypotheses, spellings);
  const best = ranked[0].place;
  const times = align(logProbs, hypotheses[best].ids);
  return {
    transcript: ranked[0].transcript,
    pinyin: tokens[best].join(" "),
    greedy_pinyin: bestPath(logProbs).map((id) => model.tokens[id]).join(" "),
    acoustic_score: hypotheses[best].acousticScore,
    language_score: spellings[best].score,
    status: "ok",
    ...describeCharacters(settings, spellings[best], units[best], isJoined ? syllables.merge(settings.syllables, times, tokens[best]) : times),
    n_best: ranked.map(({ transcript, score }) => ({ transcript, score })),
  };
}

function rankAll(settings, hypotheses, spellings) {
  const weight = settings.acoustic.language_weight;
  const scores = hypotheses.map(({ score }, i) => Math.fround(score + weight * spellings[i].score));
  return rank(scores, spellings.map(({ strings }) => join(settings.joining, strings)));
}

// Returns the characters and their mean confidence; `units` and `times` are the pinyin and the times of each string.
function describeCharacters(settings, spelling, units, times) {
  const characters = spelling.strings.map((character, i) => ({
    character,
    pinyin: units[i],
    start: settings.output_seconds * times[i].start,
    end: settings.output_seconds * times[i].end,
    confidence: calibrate(times[i].prob * spelling.probs[i], settings.acoustic),
  }));
  const sum = characters.reduce((total, item) => total + item.confidence, 0);
  const confidence = sum / Math.max(characters.length, 1);
  return { confidence, characters: characters.filter((item) => item.character) };
}
