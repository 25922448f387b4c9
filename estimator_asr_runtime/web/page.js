// The page: transcribes a file or the microphone, entirely in the browser.

import { Remote } from "./remote.js";
import { decode, findLevel, record } from "./shared/audio.js";
import { chooseLanguage, translatePage } from "./shared/strings.js";
import { showResult } from "./transcript.js";

const find = (id) => document.getElementById(id);
let language = chooseLanguage();
let words = translatePage(language);
let sentence = null; // [function that makes the status text, isError], called again when the language changes
let shown = null; // the result on the page
let settings = null; // the model's settings, once it is loaded
let stopRecording = null;
let limit = null; // timer that ends a recording at its maximum length

function say(makeText, isError = false) {
  sentence = [makeText, isError];
  find("status").textContent = makeText();
  find("status").classList.toggle("error", isError);
}

function translate() {
  words = translatePage(language);
  if (sentence) say(...sentence);
  if (shown) showResult(shown, words);
}

function fail(error) {
  const known = { NotAllowedError: "refused", NotFoundError: "missing", EncodingError: "undecodable" }[error.name];
  say(() => (known ? words[known] : words.failed(error.message || String(error))), true);
}

// Recognises samples, and shows the status text and the transcript.
async function recognise(samples) {
  const audio = (samples.length / settings.sample_rate).toFixed(1);
  const begin = performance.now();
  const result = await remote.recognise(samples);
  const seconds = ((performance.now() - begin) / 1000).toFixed(2);
  shown = result;
  showResult(result, words);
  if (result.status !== "ok") say(() => words.status[result.status], true);
  else if (!result.transcript) say(() => words.nothing);
  else say(() => words.done(audio, seconds, Math.round(100 * result.confidence)));
}

// Recognises a recording; meanwhile disables the inputs. If recognition fails, shows an error message.
async function work(makeSamples) {
  allow(false);
  find("result").hidden = true;
  shown = null;
  say(() => words.working);
  try {
    await recognise(await makeSamples());
  } catch (error) {
    fail(error);
  }
  allow(true);
}

function allow(isAllowed) {
  find("record").disabled = find("file").disabled = !isAllowed;
}

async function toggleRecording() {
  const stop = stopRecording;
  if (stop) {
    stopRecording = null;
    clearTimeout(limit);
    showRecording();
    await work(async () => (await stop()).subarray(0, settings.max_seconds * settings.sample_rate));
  } else if (!navigator.mediaDevices) {
    say(() => words.noMicrophone, true);
  } else {
    await startRecording();
  }
}

async function startRecording() {
  allow(false); // until the microphone is open
  try {
    stopRecording = await record(settings.sample_rate, (block) => (find("level").value = findLevel(block)));
    limit = setTimeout(toggleRecording, 1000 * settings.max_seconds);
    say(() => words.listeningFor(settings.max_seconds));
  } catch (error) {
    fail(error);
  }
  showRecording();
  find("record").disabled = false;
  find("file").disabled = stopRecording !== null;
}

function showRecording() {
  find("record").setAttribute("aria-pressed", String(stopRecording !== null));
  find("record-sign").textContent = stopRecording ? "■" : "●";
  find("level").hidden = stopRecording === null;
}

async function openFile(file) {
  if (file) await work(async () => decode(await file.arrayBuffer(), settings.sample_rate));
}

function showProgress(fraction) {
  find("progress").value = fraction;
  say(() => words.loadingPercent(Math.floor(100 * fraction)));
}

async function load() {
  try {
    settings = await remote.settings;
    allow(true);
    say(() => words.ready);
  } catch (error) {
    fail(error);
  }
  find("progress").hidden = true;
}

find("record").addEventListener("click", toggleRecording);
find("file").addEventListener("change", async (event) => {
  await openFile(event.target.files[0]);
  event.target.value = ""; // so that the same file can be chosen again
});
find("language").addEventListener("click", () => {
  language = language === "en" ? "zh" : "en";
  translate();
});
for (const name of ["dragover", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    if (name === "drop" && !find("file").disabled) openFile(event.dataTransfer.files[0]);
  });
}
translate();
const remote = new Remote(showProgress);
load();
