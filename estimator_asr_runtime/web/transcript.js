// Shows a result: with a punctuation model, the text with marks and with numbers in digits; the characters, shaded by
// confidence and with their times as tooltips; and other transcripts.

const MAX_SHADE = 0.75;
const find = (id) => document.getElementById(id);

export function showResult(result, words) {
  find("result").hidden = !result.transcript;
  find("written").hidden = result.written === undefined; // only with a punctuation model
  find("written").textContent = result.written ?? "";
  find("transcript").replaceChildren(...result.characters.map((item) => makeCharacter(item, words)));
  if (!result.characters.length) find("transcript").textContent = result.transcript;
  find("n-best").replaceChildren(...result.n_best.map(makeHypothesis));
  find("n-best-frame").hidden = result.n_best.length < 2;
}

function makeCharacter({ character, pinyin, start, end, confidence }, words) {
  const ruby = document.createElement("ruby");
  const reading = document.createElement("rt");
  reading.textContent = pinyin === character ? "" : pinyin;
  ruby.title = words.characterTimes(start.toFixed(2), end.toFixed(2), Math.round(100 * confidence));
  ruby.style.background = `rgb(var(--unsure) / ${(MAX_SHADE * (1 - confidence)).toFixed(2)})`;
  ruby.append(character, reading);
  return ruby;
}

function makeHypothesis({ transcript, score }) {
  const item = document.createElement("li");
  const value = document.createElement("span");
  value.textContent = ` ${score.toFixed(2)}`;
  item.append(transcript, value);
  return item;
}
