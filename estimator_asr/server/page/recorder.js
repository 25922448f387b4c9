// AudioWorklet: hands the samples of the first channel to the page, in blocks of about a tenth of a second.

class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.block = new Float32Array(Math.round(sampleRate / 10 / 128) * 128);
    this.filled = 0;
  }

  process([[channel]]) {
    if (channel) {
      this.block.set(channel, this.filled);
      this.filled += channel.length;
      if (this.filled === this.block.length) {
        this.port.postMessage(this.block.slice());
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
