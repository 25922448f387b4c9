// AudioWorklet that sends the samples of the first channel to the page in blocks of about 0.1 seconds.

class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.block = new Float32Array(Math.round(sampleRate / 10 / 128) * 128);
    this.filled = 0;
    this.port.onmessage = () => this.send(true);
  }

  send(isLast) {
    this.port.postMessage({ block: this.block.slice(0, this.filled), isLast });
    this.filled = 0;
  }

  process([[channel]]) {
    if (channel) {
      this.block.set(channel, this.filled);
      this.filled += channel.length;
      if (this.filled === this.block.length) this.send(false);
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
