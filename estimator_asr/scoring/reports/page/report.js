// The tables of report.html: characters and utterances.

const DATA = JSON.parse(document.getElementById("data").textContent);
const clips = new Map(Object.entries(DATA.audio)), files = new Map(Object.entries(DATA.files.rest));
const utterances = DATA.utterances.map(([id, speaker, level, confidence, alignment]) => ({
  id, level, confidence, alignment, speaker: DATA.speakers[speaker], errors: errorsOf(alignment).length,
  length: lengthOf(alignment), reference: textOf(alignment, "r", DATA.separator), hypothesis: textOf(alignment, "h", DATA.separator),
})).sort((left, right) => right.errors - left.errors || left.length - right.length);

// Counts, for each text of the references, its occurrences, its errors and the hypotheses that replace it.
function countTexts() {
  const rows = new Map();
  const at = (text) => rows.get(text) || rows.set(text, { text, count: 0, wrong: 0, became: new Map() }).get(text);
  for (const part of utterances.flatMap((utterance) => utterance.alignment)) {
    if (!isError(part)) { for (const text of part) at(text).count += 1; continue; }
    const row = at(part.r === null ? "(nothing)" : part.r), became = part.h === null ? "(nothing)" : part.h;
    row.count += Number(part.r !== null);
    row.wrong += 1;
    row.became.set(became, (row.became.get(became) || 0) + 1);
  }
  return [...rows.values()];
}

const allTexts = countTexts();
const wrongTexts = allTexts.filter((row) => row.wrong).sort((left, right) => right.wrong - left.wrong);
document.getElementById("right-texts").textContent =
  `Characters or tokens without errors, not shown: ${allTexts.length - wrongTexts.length} of ${allTexts.length}.`;

const listBecame = (row) =>
  [...row.became].sort((left, right) => right[1] - left[1]).slice(0, 8).map(([text, count]) => `${text} ${count}`).join(", ");
const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "–");

function showText(row) {
  const button = make("button", { type: "button", textContent: row.text, title: "show the utterances in which it is wrong" });
  button.addEventListener("click", () => {
    causeChoice.value = "";
    utteranceTable.filter.value = `wrong:${row.text}`;
    utteranceTable.draw(ROWS_AT_FIRST);
    utteranceTable.filter.scrollIntoView({ block: "center" });
    utteranceTable.filter.focus({ preventScroll: true });
  });
  return button;
}

const textTable = new Table(document.getElementById("texts"), [
  { title: "reference", value: (row) => row.text, show: showText },
  { title: "count", value: (row) => row.count, show: (row) => row.count, isNumber: true },
  { title: "wrong", value: (row) => row.wrong, show: (row) => row.wrong, isNumber: true },
  { title: "rate", value: (row) => (row.count ? row.wrong / row.count : null), show: (row) => percent(row.wrong, row.count), isNumber: true },
  { title: "recognised as", value: (row) => row.became.size, show: listBecame },
], wrongTexts, (row, query) => row.text.toLowerCase().includes(query.toLowerCase()), "characters");

function matchesUtterance(row, query) {
  const cause = causeChoice.value;
  if (cause !== "" && !errorsOf(row.alignment).some((part) => part.c === Number(cause))) return false;
  if (query.startsWith("wrong:")) {
    const text = query.slice(6);
    return errorsOf(row.alignment).some((part) => (part.r === null ? "(nothing)" : part.r) === text);
  }
  return [row.id, row.speaker, row.reference, row.hypothesis].some((text) => text.toLowerCase().includes(query.toLowerCase()));
}

function showPlayer(row) {
  const clip = clips.get(row.id), rest = files.get(row.id);
  if (!clip && rest === undefined) return "";
  const player = make("audio", { controls: true, preload: "none", src: clip ? clip.url : DATA.files.root + rest });
  player.setAttribute("aria-label", row.id);
  return make("span", {}, player, clip ? drawSpectrogram(clip) : null);
}

function drawSpectrogram(clip) {
  const bytes = Uint8Array.from(atob(clip.picture), (letter) => letter.charCodeAt(0));
  const canvas = make("canvas", { width: clip.width, height: bytes.length / clip.width });
  const picture = new ImageData(canvas.width, canvas.height);
  bytes.forEach((shade, i) => picture.data.set([255 - shade, 255 - 0.8 * shade, 255 - 0.45 * shade, 255], 4 * i));
  canvas.getContext("2d").putImageData(picture, 0, 0);
  canvas.setAttribute("role", "img");
  canvas.ariaLabel = "spectrogram, 0 to 8 kHz";
  return canvas;
}

const causeChoice = make("select", { ariaLabel: "cause" }, make("option", { value: "", textContent: "any cause" }),
  ...DATA.causes.map((cause, i) => make("option", { value: i, textContent: cause.replace("_", ": ") })));
const number = (title, value, digits) => ({
  title, value, isNumber: true, show: (row) => (value(row) === null ? "" : value(row).toFixed(digits)),
});
const utteranceTable = new Table(document.getElementById("utterances"), [
  number("errors", (row) => row.errors, 0),
  number("length", (row) => row.length, 0),
  { title: "reference and hypothesis", value: (row) => row.reference, show: (row) => showAlignment(row.alignment, DATA.separator, DATA.causes) },
  { title: "audio", value: (row) => row.id, show: showPlayer },
  { title: "utterance", value: (row) => row.id, show: (row) => row.id, className: "utterance-id" },
  { title: "speaker", value: (row) => row.speaker, show: (row) => row.speaker, className: "utterance-id" },
  number("dBFS", (row) => row.level, 0),
  number("confidence", (row) => row.confidence, 2),
], utterances, matchesUtterance, "utterances");
utteranceTable.tools.prepend(causeChoice);
causeChoice.addEventListener("change", () => utteranceTable.draw(ROWS_AT_FIRST));
