// Sends audio to the server while it is spoken, and shows the words as they arrive and settle.

const AGE_SECONDS = 10; // words spoken longer ago no longer show their age
const TICK_MS = 100;
const END_MS = 30000; // longest wait for the final transcript
const find = (id) => document.getElementById(id);

function encodeToken(token) {
  const bytes = String.fromCharCode(...new TextEncoder().encode(token));
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// One recording: send() its blocks (Float32Array), then await end(), which is null if the stream has failed.
export class Live {
  // The first block began `seconds` ago; onError is called with the error message if the stream fails.
  constructor(rate, seconds, hotwords, token, onError) {
    this.text = new LiveText(performance.now() - 1000 * seconds);
    const url = new URL(`v1/stream?sample_rate=${rate}&encoding=f32le`, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    this.socket = new WebSocket(url, token ? ["asr", `bearer.${encodeToken(token)}`] : ["asr"]);
    this.unsent = hotwords ? [JSON.stringify({ hotwords })] : []; // messages from before the connection is open
    this.socket.onopen = () => this.unsent.splice(0).forEach((content) => this.socket.send(content));
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

// Shows the words of a stream, and how many seconds ago each was spoken; words that may still change are lighter.
class LiveText {
  constructor(begin) {
    this.characters = [];
    this.begin = begin; // performance.now() when the audio began
    find("live").hidden = false;
    find("live-text").replaceChildren();
    this.timer = setInterval(() => this.showAges(), TICK_MS);
  }

  update(message) {
    const { first, characters, num_stable } = message.written ?? message;
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
