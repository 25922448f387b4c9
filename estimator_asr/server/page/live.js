// Sends audio to the server while it is spoken, and shows the words as they come and settle.

const AGE_SECONDS = 10; // words that were said earlier have no age any more
const TICK_MS = 100;
const END_MS = 30000; // for the final transcript
const find = (id) => document.getElementById(id);

function encodeToken(token) {
  const bytes = String.fromCharCode(...new TextEncoder().encode(token));
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// One recording: send() its blocks of Float32Array, then await end(), which is null if there is no stream (any more).
export class Live {
  // The first block began `seconds` ago; onError gets the sentence of a stream that fails.
  constructor(rate, seconds, hotwords, token, onError) {
    this.text = new LiveText(performance.now() - 1000 * seconds);
    const url = new URL(`v1/stream?sample_rate=${rate}&encoding=f32le`, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    this.socket = new WebSocket(url, token ? ["asr", `bearer.${encodeToken(token)}`] : ["asr"]);
    this.unsent = hotwords ? [JSON.stringify({ hotwords })] : []; // before the connection is open
    this.socket.onopen = () => this.unsent.splice(0).forEach((each) => this.socket.send(each));
    this.final = new Promise((resolve) => {
      this.socket.onclose = () => resolve(null);
      this.socket.onmessage = ({ data }) => {
        const message = JSON.parse(data);
        if (message.type === "partial") this.text.update(message);
        else if (message.type === "final") resolve(message);
        else onError(message.error.message);
      };
    });
  }

  send(content) {
    if (this.socket.readyState === WebSocket.CONNECTING) this.unsent.push(content);
    else if (this.socket.readyState === WebSocket.OPEN) this.socket.send(content);
  }

  end() {
    this.send(JSON.stringify({ end: true }));
    return Promise.race([this.final, new Promise((resolve) => setTimeout(resolve, END_MS, null))]);
  }

  close() {
    this.text.close();
    this.socket.close();
  }
}

// The words of a stream, those that may still change in a lighter colour, with the seconds since each was said.
class LiveText {
  constructor(begin) {
    this.characters = [];
    this.begin = begin; // when the audio began, as performance.now() has it
    find("live").hidden = false;
    find("live-text").replaceChildren();
    this.timer = setInterval(() => this.showAges(), TICK_MS);
  }

  update({ first, characters, num_stable }) {
    this.characters.splice(first, Infinity, ...characters);
    const text = find("live-text");
    while (text.children.length > first) text.lastChild.remove();
    characters.forEach(({ character }, i) => {
      const word = document.createElement("ruby");
      word.className = first + i < num_stable ? "stable" : "partial";
      word.append(character, document.createElement("rt"));
      text.append(word);
    });
    this.showAges();
  }

  showAges() {
    const now = (performance.now() - this.begin) / 1000;
    const words = find("live-text").children;
    for (let i = words.length - 1; i >= 0; i--) {
      const age = now - this.characters[i].end, label = words[i].lastChild;
      if (age >= AGE_SECONDS && !label.textContent) break;
      label.textContent = age < AGE_SECONDS ? Math.max(0, age).toFixed(1) : "";
    }
  }

  close() {
    clearInterval(this.timer);
    find("live").hidden = true;
  }
}
