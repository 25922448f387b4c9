// Loads the model and recognises in a thread of its own, so that the page stays awake.
//
// It sends { progress } while files come, { settings } when the model is ready, and { error } if it cannot be
// loaded. A waveform with a number is answered by { number, result } or { number, error }.

import * as ort from "./ort.js";

import { Downloads, request } from "./download.js";
import { loadModel, recognise } from "./recogniser.js";

async function load() {
  const listing = await (await request("files.json")).json();
  const downloads = new Downloads(listing.files, listing.digests, (progress) => self.postMessage({ progress }));
  const read = (name) => downloads.read(name);
  ort.env.wasm.numThreads = 1; // more need headers for cross-origin isolation
  ort.env.wasm.wasmBinary = await read("ort.wasm");
  return loadModel(ort, listing, read);
}

const model = load();
model.then(({ settings }) => self.postMessage({ settings })).catch((error) => self.postMessage({ error: error.message }));

let before = model.catch(() => null);
self.onmessage = ({ data }) => {
  before = before.then(() => answer(data)); // a model is for one utterance at a time
};

async function answer({ number, waveform }) {
  try {
    self.postMessage({ number, result: await recognise(await model, waveform) });
  } catch (error) {
    self.postMessage({ number, error: error.message });
  }
}
