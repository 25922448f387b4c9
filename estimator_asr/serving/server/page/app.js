// The page: transcribes a file or speech from the microphone, and shows each character at its time.

import { askVersion, Refused, transcribe } from "./api.js";
import { copy } from "./clipboard.js";
import { Live } from "./live.js";
import { Player } from "./player.js";
import { showResult } from "./result.js";
import { decode, findLevel, record } from "./shared/audio.js";
import { chooseLanguage, translatePage } from "./shared/strings.js";
import { encodeWav, SAMPLE_RATE } from "./wav.js";

const find = (id) => document.getElementById(id);
const player = new Player();
let language = chooseLanguage();
let words = translatePage(language);
let stopRecording = null;
let live = null; // the stream of the current recording
let version = null;
let newest = 0; // number of the latest request; responses to earlier requests are not shown
let shown = null; // the result on the page, which redraw() shows again in the other language

function translate() {
  words = translatePage(language);
  find("model").textContent = version === null ? "" : words.model(version);
  redraw();
}

function say(text, isError = false) {
  find("status").textContent = text;
  find("status").classList.toggle("error", isError);
}

function redraw() {
  if (shown) say(...describe(shown));
  if (shown) showResult(shown.result, shown.samples, player, words);
}

// Returns the status text for a result, and whether it is an error.
function describe({ result, seconds, samples }) {
  const problem = words.status[result.status];
  if (problem) return [problem, true];
  if (!result.text) return [words.nothing, false];
  const audio = (result.duration ?? samples.length / SAMPLE_RATE).toFixed(1);
  return [words.done(audio, seconds.toFixed(2), Math.round(100 * result.confidence)), false];
}

function explain(error) {
  if (!(error instanceof Refused)) return String(error);
  if (error.status === 0) return words.unreachable;
  if (error.status !== 401) return error.message;
  find("access").hidden = false;
  find("access").open = true;
  find("token").focus();
  return words.unauthorised;
}

// Recognises a Blob; `samples` are its audio for the pictures, or null if the browser cannot decode the Blob.
function recognise(blob, name, samples) {
  return show(() => transcribe(blob, name, find("hotwords").value.trim(), find("token").value), samples);
}

// Shows the result of ask() for the samples, unless a newer request has been made meanwhile.
async function show(ask, samples, begin = performance.now()) {
  shown = null;
  newest += 1;
  const number = newest;
  find("result").hidden = true;
  say(words.working);
  try {
    const result = await ask();
    if (number !== newest) return;
    if (samples && Math.abs(result.duration - samples.length / SAMPLE_RATE) > 0.5) samples = null;
    shown = { result, samples, seconds: (performance.now() - begin) / 1000 };
    player.load(samples);
    redraw();
  } catch (error) {
    if (number === newest) say(explain(error), true);
  }
}

async function openFile(file) {
  if (!file) return;
  const bytes = await file.arrayBuffer();
  const samples = await decode(bytes, SAMPLE_RATE).catch(() => null); // only for the pictures, because browsers skip gaps in the audio
  await recognise(file, file.name, samples);
}

function recogniseSamples(samples) {
  return recognise(new Blob([encodeWav(samples)], { type: "audio/wav" }), "recording.wav", samples);
}

// Sends a block of a recording to its stream, which starts with the first block.
function hear(block, rate) {
  find("level").value = findLevel(block);
  const settings = [find("hotwords").value.trim(), find("token").value];
  live ??= new Live(rate, block.length / rate, ...settings, (problem) => say(words.streamFailed(problem), true));
  live.send(block);
}

// Shows the transcript of the stream; if there is none, sends the recording as a whole.
async function finishRecording(stop) {
  let samples, begun, result = null;
  try {
    samples = await stop();
    say(words.working);
    begun = performance.now();
    if (live) result = await live.end();
  } finally {
    if (live) live.close();
    live = null;
  }
  if (result) await show(() => result, samples, begun);
  else await recogniseSamples(samples);
}

async function toggleRecording() {
  const stop = stopRecording;
  find("record").disabled = true; // until the microphone is open, or the result has arrived
  try {
    if (stop) {
      stopRecording = null;
      showRecording();
      await finishRecording(stop);
    } else if (!navigator.mediaDevices) {
      say(words.noMicrophone, true);
    } else {
      stopRecording = await record(SAMPLE_RATE, hear);
      showRecording();
      say(words.listening);
    }
  } catch (error) {
    say({ NotAllowedError: words.refused, NotFoundError: words.missing }[error.name] || String(error), true);
  } finally {
    find("record").disabled = false;
  }
}

function showRecording() {
  find("record").setAttribute("aria-pressed", String(stopRecording !== null));
  find("record-sign").textContent = stopRecording ? "■" : "●";
  find("level").hidden = stopRecording === null;
}

async function showVersion() {
  try {
    version = await askVersion(find("token").value);
    translate();
  } catch (error) {
    say(explain(error), true);
  }
}

find("record").addEventListener("click", toggleRecording);
find("file").addEventListener("change", async (event) => {
  await openFile(event.target.files[0]);
  event.target.value = ""; // so that the same file can be chosen again
});
find("token").addEventListener("change", showVersion);
find("play").addEventListener("click", () => player.toggle());
find("copy").addEventListener("click", async () => {
  const isCopied = await copy(shown.result.text);
  say(isCopied ? words.copied : words.notCopied, !isCopied);
});
find("language").addEventListener("click", () => {
  language = language === "en" ? "zh" : "en";
  translate();
});
for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    find("drop").classList.toggle("over", name === "dragover");
    if (name === "drop") openFile(event.dataTransfer.files[0]);
  });
}
translate();
showVersion();
