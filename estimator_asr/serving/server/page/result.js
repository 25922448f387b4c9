// Shows a result: the text with marks, its characters (shaded by confidence, and under the pictures at their times), and other transcripts.

import { drawSpectrogram, drawWaveform } from "./pictures.js";
import { makeRoving } from "./roving.js";

const PIXELS_PER_SECOND = 110;
const MAX_WIDTH = 16000; // pixels of a canvas
const MAX_SHADE = 0.75;
const MARGIN_SECONDS = 0.03; // played before and after a character
const find = (id) => document.getElementById(id);

export function showResult(result, samples, player, words) {
  const characters = result.characters;
  find("result").hidden = !result.text;
  find("written").hidden = result.transcript === undefined; // only with a punctuation model
  find("written").textContent = result.text;
  find("transcript").replaceChildren(...characters.map((item, i) => makeButton(item, i, true)));
  makeRoving(find("transcript"));
  if (!characters.length) find("transcript").textContent = result.text;
  find("n-best").replaceChildren(...result.n_best.map(makeHypothesis));
  find("n-best-frame").hidden = result.n_best.length < 2;
  find("timeline").hidden = find("play").hidden = !samples;
  if (samples && result.text) showTimeline(samples, player.seconds);

  function makeButton({ character, pinyin, confidence }, index, withPinyin) {
    const button = document.createElement("button");
    const sure = Math.round(100 * confidence);
    button.type = "button";
    button.title = `${pinyin} · ${sure} %`;
    button.setAttribute("aria-label", words.character(character, pinyin, sure));
    button.style.background = `rgb(var(--unsure) / ${(MAX_SHADE * (1 - confidence)).toFixed(2)})`;
    button.dataset.index = index;
    button.append(withPinyin ? makeRuby(character, pinyin) : character);
    button.addEventListener("click", () => {
      const [start, end] = boundsOf(index);
      player.play(Math.max(0, start - MARGIN_SECONDS), Math.min(player.seconds, end + MARGIN_SECONDS));
    });
    return button;
  }

  // A character is played between the midpoints to its neighbours, because CTC times are only moments.
  function boundsOf(index) {
    const middle = (i) => (characters[i].start + characters[i].end) / 2;
    const start = index ? (middle(index - 1) + middle(index)) / 2 : middle(index) - 0.25;
    const end = index + 1 < characters.length ? (middle(index) + middle(index + 1)) / 2 : middle(index) + 0.3;
    return [start, end];
  }

  function showTimeline(samples, seconds) {
    const room = find("timeline").clientWidth || 300;
    const width = Math.min(MAX_WIDTH, Math.max(room, Math.round(seconds * PIXELS_PER_SECOND)));
    const colour = getComputedStyle(document.body).getPropertyValue("--accent");
    for (const [id, height] of [["waveform", 60], ["spectrogram", 120]]) {
      Object.assign(find(id), { width, height });
    }
    drawWaveform(find("waveform"), samples, colour);
    drawSpectrogram(find("spectrogram"), samples);
    find("canvas-frame").style.width = `${width}px`;
    const place = (time) => `${(time / seconds) * width}px`;
    find("characters").replaceChildren(...characters.map((item, i) => makeMark(item, i, place)));
    player.onTime = (time) => follow(time, place);
  }

  function makeMark(character, index, place) {
    const item = document.createElement("li");
    const pinyin = document.createElement("small");
    item.lang = "zh";
    item.style.left = place((character.start + character.end) / 2);
    item.style.top = `${(index % 2) * 2.2}rem`; // so that close neighbours do not overlap
    pinyin.textContent = character.pinyin;
    const button = makeButton(character, index, false);
    button.tabIndex = -1; // the same buttons are in the transcript
    button.setAttribute("aria-hidden", "true");
    item.append(button, pinyin);
    return item;
  }

  function follow(time, place) {
    find("cursor").hidden = time === null;
    find("play").textContent = time === null ? words.play : words.pause;
    if (time !== null) find("cursor").style.left = place(time);
    for (const button of document.querySelectorAll("button[data-index]")) {
      const [start, end] = boundsOf(Number(button.dataset.index));
      button.classList.toggle("sounding", time !== null && time >= start && time < end);
    }
  }
}

function makeRuby(character, pinyin) {
  const ruby = document.createElement("ruby");
  const reading = document.createElement("rt");
  reading.textContent = pinyin;
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
