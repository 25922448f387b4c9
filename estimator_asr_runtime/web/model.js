// The page's model: graphs, vocabularies and n-gram models.

import { NgramScorer } from "./ngrams.js";
import { WrittenForm } from "./shared/written_form.js";

const ARRAYS = { float32: Float32Array, float64: Float64Array, int32: Int32Array }; // little-endian in all browsers

// Loads a model.
//   ort      onnxruntime-web
//   settings the page's model.json
//   read     returns the bytes of a file in the listing: async (name) => ArrayBuffer
export async function loadModel(ort, settings, read) {
  const names = Object.keys(settings.files);
  const find = (name) => names.includes(`model/${name}`) && `model/${name}`;
  const graph = async (name) => find(`${name}.onnx`) && openGraph(ort, await read(find(`${name}.onnx`)));
  const tokens = async (name) => (find(name) ? readTokens(await read(find(name))) : []);
  const ids = async (name) => new Map((await tokens(name)).map((token, index) => [token, index]));
  return {
    ort,
    settings,
    acoustic: await graph("acoustic"),
    decoder: settings.acoustic.attention_weight ? await graph("decoder") : null,
    language: settings.language && (await graph("language")),
    tokens: await tokens("tokens.txt"),
    characters: await tokens("characters.txt"),
    languageIds: await ids("language_tokens.txt"),
    acousticNgram: await readNgram(settings.ngrams.acoustic, read, settings.acoustic),
    languageNgram: await readNgram(settings.ngrams.language, read, settings.language),
    punctuation: settings.punctuation && (await graph("punctuation")),
    punctuationIds: await ids("punctuation_characters.txt"),
    writtenForm: settings.punctuation && readRules(await read("model/written_form.json")),
  };
}

function openGraph(ort, bytes) {
  const options = { executionProviders: ["wasm"], logSeverityLevel: 3 }; // logs errors, but no warnings
  return ort.InferenceSession.create(new Uint8Array(bytes), options);
}

function readTokens(bytes) {
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes); // a BOM is part of a token
  return text.replace(/\n$/, "").split("\n");
}

function readRules(bytes) {
  return new WrittenForm(JSON.parse(new TextDecoder().decode(bytes)));
}

async function readNgram(ngram, read, decode) {
  if (!ngram) return null;
  const arrays = {};
  for (const [name, { file, type }] of Object.entries(ngram.arrays)) arrays[name] = new ARRAYS[type](await read(file));
  return new NgramScorer(arrays, ngram.order, ngram.start_state, decode.ngram_weight);
}
