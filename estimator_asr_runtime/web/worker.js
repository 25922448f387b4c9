// Loads the model and recognises speech in a separate thread, so that the page stays responsive.
//
// Sends { progress } while files are downloaded, { settings } when the model is ready, or { error } if it cannot be
// loaded. Responds to { number, waveform } with { number, result } or { number, error }.

import * as ort from "./ort.js";

import { Downloads, request } from "./download.js";
import { loadModel, recognise } from "./recogniser.js";

async function load() {
  const settings = await (await request("model.json")).json();
  const downloads = new Downloads(settings.files, (progress) => self.postMessage({ progress }));
  const read = (name) => downloads.read(name);
  ort.env.wasm.numThreads = 1; // more threads need headers for cross-origin isolation
  ort.env.wasm.wasmBinary = await read("ort.wasm");
  return loadModel(ort, settings, read);
}

const model = load();
model.then(({ settings }) => self.postMessage({ settings })).catch((error) => self.postMessage({ error: error.message }));

let before = model.catch(() => null);
self.onmessage = ({ data }) => {
  before = before.then(() => answer(data)); // one utterance at a time
};

async function answer({ number, waveform }) {
  try {
    self.postMessage({ number, result: await recognise(await model, waveform) });
  } catch (error) {
    self.postMessage({ number, error: error.message });
  }
}
