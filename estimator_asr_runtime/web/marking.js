// Adds punctuation marks to a transcript, and writes its numbers in digits; equivalent to marking.py.

import { join } from "./joining.js";

const UNKNOWN_ID = 0;
const SPACE = "<space>"; // no mark follows a space

// Adds `punctuated`, `written` and the mark of each character to a result of recognise, if there is a punctuation
// model.
export async function punctuate(model, result) {
  if (!model.punctuation) return result;
  const marks = result.characters.length ? await findMarks(model, result.characters) : [];
  const characters = result.characters.map((item, i) => ({ ...item, mark: marks[i] }));
  const joined = join(model.settings.joining, characters.map(({ character, mark }) => character + mark));
  const spaces = new RegExp(`([${model.settings.punctuation.marks.join("")}]) +`, "gu"); // no space follows a mark
  const punctuated = joined.replace(spaces, "$1");
  return { ...result, characters, punctuated, written: model.writtenForm.write(punctuated) };
}

async function findMarks({ ort, punctuation, punctuationIds, settings }, items) {
  const ids = Int32Array.from(items, ({ character }) => punctuationIds.get(character) ?? UNKNOWN_ID);
  const { scores: allScores } = await punctuation.run({
    character_ids: new ort.Tensor("int32", ids, [1, ids.length]),
    num_characters: new ort.Tensor("int32", Int32Array.of(ids.length), [1]),
  });
  const { marks } = settings.punctuation;
  return items.map(({ character, end }, i) => {
    const bonus = weighPause(settings.punctuation, (items[i + 1]?.start ?? end) - end);
    const scores = allScores.data.slice(i * marks.length, (i + 1) * marks.length);
    for (let id = 1; id < marks.length; id++) scores[id] += bonus; // class 0 stands for no mark
    if (i === items.length - 1) scores[0] = -Infinity; // a mark always follows the last character
    return character === SPACE ? "" : marks[scores.indexOf(Math.max(...scores))];
  });
}

function weighPause({ pause_weight, pause_offset, longest_pause }, pause) {
  return pause_weight * (Math.min(Math.max(pause, 0), longest_pause) - pause_offset);
}
