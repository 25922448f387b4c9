// Speech to text: acoustic model -> search -> language model -> transcript, times and confidences.
// Equals recogniser.py without hotwords. It needs no browser: onnxruntime-web and the files are arguments of loadModel.

import { search } from "./beam_search.js";
import { bestPath, LogProbs } from "./ctc.js";
import { join } from "./joining.js";
import { calibrate, rank } from "./ranking.js";
import { check } from "./statuses.js";
import * as syllables from "./syllables.js";
import { runOnSequences } from "./tensors.js";
import { align } from "./token_times.js";
import { write } from "./writing.js";

export { loadModel } from "./model.js";

// Recognises an utterance, Float32Array at the sample rate of the model, full scale 1. Returns an object with the
// names that recognise of recogniser.py explains.
export async function recognise(model, waveform) {
  const status = check(waveform, model.settings);
  if (status !== "ok") return makeEmpty(status);
  const { ort, acoustic } = model;
  const outputs = await acoustic.run({ waveform: new ort.Tensor("float32", waveform, [1, waveform.length]) });
  const { data, dims } = outputs.log_probs;
  const logProbs = new LogProbs(data, dims[1], dims[2]);
  if (!logProbs.isValid()) throw new Error("The acoustic model gives no log probabilities: export it again.");
  let found = search(model.settings.acoustic, logProbs, model.acousticNgram ? [model.acousticNgram] : []);
  if (model.decoder) found = await attend(model, outputs.encoding, found);
  return describe(model, logProbs, found);
}

export function makeEmpty(status) {
  return {
    ...{ transcript: "", pinyin: "", greedy_pinyin: "", acoustic_score: 0, language_score: 0, confidence: 0 },
    status,
    characters: [],
    n_best: [{ transcript: "", score: 0 }],
  };
}

// Returns the hypotheses ordered by their scores and weighted log probabilities of the decoder.
async function attend(model, encoding, found) {
  const ids = found.map((each) => each.ids);
  const rows = await runOnSequences(model.ort, model.decoder, ids, { encoding });
  const weight = model.settings.acoustic.attention_weight;
  const added = rows.map(({ outputs, row }) => weight * outputs.scores.data[row]);
  const rescored = found.map((each, i) => ({
    ...each,
    score: Number.isNaN(added[i]) ? -Infinity : Math.fround(each.score + added[i]),
  }));
  return rescored.sort((a, b) => b.score - a.score);
}

async function describe(model, logProbs, found) {
  const { settings } = model;
  const tokens = found.map((each) => each.ids.map((id) => model.tokens[id]));
  const isJoined = settings.language !== null && settings.token_type === "initial_final";
  const spoken = isJoined ? tokens.map((each) => syllables.join(settings.syllables, each)) : tokens;
  const written = await write(model, spoken);
  const ranked = rankAll(settings, found, written);
  const best = ranked[0].place;
  const times = align(logProbs, found[best].ids);
  return {
    transcript: ranked[0].transcript,
    pinyin: tokens[best].join(" "),
    greedy_pinyin: bestPath(logProbs).map((id) => model.tokens[id]).join(" "),
    acoustic_score: found[best].acousticScore,
    language_score: written[best].score,
    status: "ok",
    ...describeCharacters(settings, written[best], spoken[best], isJoined ? syllables.merge(settings.syllables, times, tokens[best]) : times),
    n_best: ranked.map(({ transcript, score }) => ({ transcript, score })),
  };
}

function rankAll(settings, found, written) {
  const weight = settings.acoustic.language_weight;
  const scores = found.map((each, i) => Math.fround(each.score + weight * written[i].score));
  return rank(scores, written.map((each) => join(settings.joining, each.strings)));
}

// Returns characters and their mean confidence; spoken tokens and their times are one for each string.
function describeCharacters(settings, written, spoken, times) {
  const characters = written.strings.map((character, i) => ({
    character,
    pinyin: spoken[i],
    start: settings.output_seconds * times[i].start,
    end: settings.output_seconds * times[i].end,
    confidence: calibrate(times[i].prob * written.probs[i], settings.acoustic),
  }));
  const sum = characters.reduce((total, each) => total + each.confidence, 0);
  const confidence = sum / Math.max(characters.length, 1);
  return { confidence, characters: characters.filter((each) => each.character) };
}
