// Recognises waveforms (files of float32 samples) in Node, with the files of a page:
// node recognise.mjs PAGE LIBRARY WAVEFORM...
// Prints each waveform's result as a line of JSON.

import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const [page, library, ...waveforms] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${page}/${name}`).href);
const read = async (name) => toArrayBuffer(await readFile(`${page}/${name}`));

function toArrayBuffer({ buffer, byteOffset, byteLength }) {
  return buffer.slice(byteOffset, byteOffset + byteLength);
}

const ort = await load("ort.js");
const { loadModel, recognise } = await load("recogniser.js");
ort.env.wasm.numThreads = 1;
// Outside a browser, the library loads its own code from another file.
ort.env.wasm.wasmPaths = { mjs: pathToFileURL(`${library}/ort-wasm-simd-threaded.mjs`).href };
ort.env.wasm.wasmBinary = await read("ort.wasm");
const model = await loadModel(ort, JSON.parse(await readFile(`${page}/model.json`, "utf-8")), read);
for (const path of waveforms) {
  const samples = new Float32Array(toArrayBuffer(await readFile(path)));
  console.log(JSON.stringify(await recognise(model, samples)));
}
