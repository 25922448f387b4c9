// Tables that can be sorted by clicking a column and filtered by text; alignments with coloured differences.

const ROWS_AT_FIRST = 10, MORE_ROWS = 50;

// make("td", {className: "number"}, "text", node, ...)
function make(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// columns: {title, value: row => sort key, show: row => text or node, isNumber, className}; rows in initial order.
class Table {
  constructor(place, columns, rows, matches, label) {
    Object.assign(this, { columns, rows, matches, shown: ROWS_AT_FIRST, sorted: null, descending: true });
    this.filter = make("input", { type: "search", placeholder: "filter", ariaLabel: `filter ${label}` });
    this.filter.addEventListener("input", () => this.draw(ROWS_AT_FIRST));
    this.count = make("span", { className: "note" });
    this.count.setAttribute("role", "status");
    this.tools = make("div", { className: "table-tools" }, this.filter, this.count);
    this.heads = columns.map((column) => this.makeHead(column));
    this.body = make("tbody");
    this.more = make("button", { type: "button", textContent: "show more" });
    this.more.addEventListener("click", () => this.draw(this.shown + MORE_ROWS));
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...this.heads)), this.body);
    place.append(this.tools, make("div", { className: "wide" }, table), this.more);
    this.draw(ROWS_AT_FIRST);
  }

  makeHead(column) {
    const button = make("button", { type: "button", textContent: column.title });
    button.addEventListener("click", () => this.sort(column));
    return make("th", { className: column.isNumber ? "number" : "", scope: "col" }, button);
  }

  sort(column) {
    this.descending = this.sorted === column ? !this.descending : Boolean(column.isNumber);
    this.sorted = column;
    this.heads.forEach((head) => head.removeAttribute("aria-sort"));
    this.heads[this.columns.indexOf(column)].setAttribute("aria-sort", this.descending ? "descending" : "ascending");
    const sign = this.descending ? -1 : 1;
    this.rows.sort((left, right) => sign * compare(column.value(left), column.value(right)));
    this.draw(ROWS_AT_FIRST);
  }

  draw(shown) {
    this.shown = shown;
    const matching = this.rows.filter((row) => this.matches(row, this.filter.value.trim()));
    this.body.replaceChildren(...matching.slice(0, shown).map((row) => this.makeRow(row)));
    this.count.textContent = `${matching.length} of ${this.rows.length}`;
    this.more.hidden = matching.length <= shown;
  }

  makeRow(row) {
    const cells = this.columns.map((column) =>
      make("td", { className: `${column.isNumber ? "number" : ""} ${column.className || ""}` }, column.show(row)));
    return make("tr", {}, ...cells);
  }
}

function compare(left, right) {
  if (left === null || right === null) return left === right ? 0 : left === null ? -1 : 1;
  return typeof left === "string" ? left.localeCompare(right, "zh") : left - right;
}

// An alignment is a list of runs of correct texts (a string of characters, or a list) and errors {r, h, s, c}.
const isError = (part) => !Array.isArray(part) && typeof part === "object";
const errorsOf = (alignment) => alignment.filter(isError);
const textOf = (alignment, side, separator) =>
  alignment.flatMap((part) => (isError(part) ? (part[side] === null ? [] : [part[side]]) : [...part])).join(separator);
const lengthOf = (alignment) =>
  alignment.reduce((sum, part) => sum + (isError(part) ? Number(part.r !== null) : [...part].length), 0);

function showAlignment(alignment, separator, causes) {
  const parts = alignment.flatMap((part) => [isError(part) ? showError(part, causes) : [...part].join(separator), separator]);
  return make("span", { className: "alignment", lang: "zh" }, ...parts);
}

function showError(part, causes) {
  const cause = causes[part.c] || "";
  const syllables = part.s[0] === part.s[1] ? part.s[0] : part.s.map((syllable) => syllable || "–").join(" → ");
  return make("ruby", { className: cause.split("_")[0], title: cause.replace("_", ": "), lang: "zh" },
    part.r === null ? null : make("del", {}, part.r), part.h === null ? null : make("ins", {}, part.h),
    make("rt", {}, part.s.some(Boolean) ? syllables : ""), make("span", { className: "hidden" }, cause.replace("_", ": ")));
}
