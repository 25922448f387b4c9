// Makes the buttons in an element a single tab stop: arrow keys, Home and End move between them.

const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity };

export function makeRoving(element) {
  const buttons = [...element.querySelectorAll("button")];
  const select = (chosen) => buttons.forEach((button) => { button.tabIndex = button === chosen ? 0 : -1; });
  select(buttons[0]);
  for (const button of buttons) button.addEventListener("focus", () => select(button));
  element.onkeydown = (event) => {
    const step = STEPS[event.key];
    const place = buttons.indexOf(document.activeElement);
    if (step === undefined || place < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault(); // the arrow keys would scroll the page
    buttons[Math.max(0, Math.min(buttons.length - 1, place + step))].focus();
  };
}
