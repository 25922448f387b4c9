// Writes numbers, dates, amounts and spelled letters as people write them; equivalent to written_form.py.

const DIGITS = new Map([..."零〇幺一二两三四五六七八九"].map((hanzi, i) => [hanzi, "0011223456789"[i]]));
const UNITS = new Map([["十", 10], ["百", 100], ["千", 1000]]);
const FULL = 10_000_000; // a larger number that is not a multiple of 10,000 is written with 万: 1234万5678

export class WrittenForm {
  // `rules` is the parsed written_form.json.
  constructor(rules) {
    const sources = rules.rules.map((rule) => expand(rule.find, rules.parts));
    this.rules = sources.map((source, i) => ({ pattern: new RegExp(source, "dy"), template: rules.rules[i].write }));
    this.start = new RegExp(rules.starts, "g");
    this.span = new RegExp(`${rules.spans}+`, "y");
    this.longestFollower = rules.longest_follower;
    const known = [...new Set(sources.join(""))].filter((character) => character > "~").join("");
    this.foreign = new RegExp(`[^${known}A-Za-z ]`, "g");
  }

  write(text) {
    return this.rewrite(text).map((piece) => piece.written).join("");
  }

  // Returns pieces { written, start, end } in order; their ranges, in code points, cover the text without gaps.
  rewrite(text) {
    const characters = Array.from(text);
    const pieces = [];
    let end = 0;
    const last = { start: characters.length };
    const changes = [...this.scan(flatten(characters))].flatMap((step) => step.changes);
    for (const piece of [...changes, last]) {
      const { start } = piece;
      if (end < start) pieces.push({ written: characters.slice(end, start).join(""), start: end, end: start });
      if (piece !== last) pieces.push(piece);
      end = piece.end;
    }
    return pieces;
  }

  // Returns how many code points of a growing text have a written form that later text cannot change.
  settledLength(text) {
    const flat = flatten(Array.from(text));
    let settled = 0;
    let reach = 0;
    let spanEnd = 0;
    for (const { start } of this.scan(flat)) {
      if (start < spanEnd) continue; // no more characters decide here than at the start of the span
      if (start >= reach) settled = start;
      const found = this.findReach(flat, start);
      spanEnd = found.spanEnd;
      reach = Math.max(reach, found.reach);
      if (reach >= flat.length) return settled;
    }
    return flat.length;
  }

  // Yields each position where a rule could match, and the changes by the first rule that does.
  *scan(text) {
    for (let at = match(this.start, text, 0); at; ) {
      const { end, changes } = this.apply(text, at.index);
      yield { start: at.index, changes };
      at = match(this.start, text, end);
    }
  }

  apply(text, start) {
    for (const { pattern, template } of this.rules) {
      const found = match(pattern, text, start);
      if (found) return { end: start + found[0].length, changes: change(found, template) };
    }
    return { end: start + 1, changes: [] };
  }

  // Returns where the span ends, and where the characters end that decide which rules match in it.
  findReach(text, start) {
    const span = match(this.span, text, start);
    const spanEnd = start + (span ? span[0].length : 1);
    const end = spanEnd + this.longestFollower;
    const foreign = match(this.foreign, text.slice(start, end), 0); // no rule matches beyond such a character
    return { spanEnd, reach: foreign ? start + foreign.index : end };
  }
}

// Returns the text with one UTF-16 unit per code point: no rule matches characters beyond U+FFFF.
function flatten(characters) {
  return characters.map((character) => (character.length > 1 ? "\uffff" : character)).join("");
}

function match(pattern, text, start) {
  pattern.lastIndex = start;
  return pattern.exec(text);
}

function expand(pattern, parts) {
  return pattern.replace(/{([a-z_]+)}/g, (_, name) => expand(parts[name], parts));
}

function change(found, template) {
  const makePiece = (written, i) => ({ written, start: found.indices[i][0], end: found.indices[i][1] });
  if (template !== undefined) return [makePiece(template.replace(/{([0-9])}/g, (_, i) => convert(found[i])), 0)];
  const groups = [...found.keys()].slice(1).filter((i) => found[i]);
  return groups.map((i) => makePiece(convert(found[i]), i));
}

// Converts a group's text: a number in hanzi, letters, spaces, a minus sign, or another word.
function convert(text) {
  if (/^[A-Za-z ]*$/.test(text)) return text.replaceAll(" ", "").toUpperCase();
  if (/[^零〇幺一二两三四五六七八九十百千万亿点]/.test(text)) return text.replaceAll("负", "-");
  return text.split("点").map(writeNumber).join(".");
}

function writeNumber(text) {
  for (const unit of "亿万") {
    const at = text.lastIndexOf(unit);
    if (at >= 0) return join(writeNumber(text.slice(0, at)), unit, text.slice(at + 1));
  }
  if (/[十百千]/.test(text)) return String(evaluate(text));
  return Array.from(text, (hanzi) => DIGITS.get(hanzi)).join("");
}

function join(head, unit, tail) {
  const digits = writeNumber(tail.replace(/^[零〇]+/, ""));
  if (unit === "万" && tail.length > 1 && Number(head) < FULL / 10_000) {
    return String(Number(head) * 10_000 + Number(digits));
  }
  return head + unit + (/^[零〇]/.test(tail) ? "零" : "") + digits;
}

// Returns the value of a number below 10,000; 一百五 is 150, because no 零 precedes the last digit.
function evaluate(text) {
  let [total, digit, unit] = [0, 0, 1];
  for (const character of text) {
    if (UNITS.has(character)) {
      unit = UNITS.get(character);
      total += (digit || 1) * unit;
      digit = 0;
    } else {
      digit = Number(DIGITS.get(character));
      unit = digit ? unit : 10;
    }
  }
  return total + digit * Math.max(Math.floor(unit / 10), 1);
}
