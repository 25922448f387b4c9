// The tables of the comparison: texts and utterances that one report gets right and another wrong.

const DATA = JSON.parse(document.getElementById("data").textContent);
const letter = (i) => String.fromCharCode(65 + i);
const difference = (errors) => errors[errors.length - 1] - errors[0];
const number = (title, value) => ({ title, value, show: value, isNumber: true });

new Table(document.getElementById("texts"), [
  { title: "reference", value: (row) => row[0], show: (row) => row[0] },
  number("count", (row) => row[1]),
  ...DATA.reports.map((_, i) => number(`wrong in ${letter(i)}`, (row) => row[2][i])),
  number("last minus first", (row) => difference(row[2])),
], DATA.texts, (row, query) => row[0].toLowerCase().includes(query.toLowerCase()), "characters");

const count = (row, i) => errorsOf(row[2][i]).length;
const counts = (row) => row[2].map((_, i) => count(row, i));
const texts = (row) => [row[0], row[1], ...row[2].flatMap((alignment) => ["r", "h"].map((side) => textOf(alignment, side, DATA.separator)))];
DATA.utterances.sort((left, right) => Math.abs(difference(counts(right))) - Math.abs(difference(counts(left))));
new Table(document.getElementById("utterances"), [
  ...DATA.reports.map((_, i) => ({
    title: letter(i), value: (row) => textOf(row[2][i], "h", DATA.separator),
    show: (row) => showAlignment(row[2][i], DATA.separator, DATA.causes),
  })),
  ...DATA.reports.map((_, i) => number(`errors of ${letter(i)}`, (row) => count(row, i))),
  number("last minus first", (row) => difference(counts(row))),
  { title: "utterance", value: (row) => row[0], show: (row) => row[0], className: "utterance-id" },
  { title: "speaker", value: (row) => row[1], show: (row) => row[1], className: "utterance-id" },
], DATA.utterances, (row, query) => texts(row).some((text) => text.toLowerCase().includes(query.toLowerCase())), "utterances");
