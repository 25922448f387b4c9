// The page's interface to the recogniser in its worker.

export class Remote {
  constructor(onProgress) {
    this.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.waiting = new Map();
    // Resolves to the model's settings once the model is loaded.
    this.settings = new Promise((resolve, reject) => {
      this.worker.onmessage = ({ data }) => {
        if (data.progress !== undefined) onProgress(data.progress);
        else if (data.number !== undefined) this.settle(data);
        else if (data.settings) resolve(data.settings);
        else reject(new Error(data.error));
      };
      this.worker.onerror = (event) => reject(new Error(event.message || "the worker script of the page cannot be loaded"));
    });
  }

  // Returns the result for a waveform, a Float32Array at the model's sample rate.
  recognise(waveform) {
    const number = this.waiting.size ? Math.max(...this.waiting.keys()) + 1 : 0;
    return new Promise((resolve, reject) => {
      this.waiting.set(number, { resolve, reject });
      this.worker.postMessage({ number, waveform });
    });
  }

  settle({ number, result, error }) {
    const { resolve, reject } = this.waiting.get(number);
    this.waiting.delete(number);
    if (error === undefined) resolve(result);
    else reject(new Error(error));
  }
}
