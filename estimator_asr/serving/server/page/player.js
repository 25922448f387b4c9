// Plays a recording or a part of it, and reports the position that is playing.

import { toBuffer } from "./shared/audio.js";
import { SAMPLE_RATE } from "./wav.js";

export class Player {
  constructor() {
    this.buffer = null;
    this.source = null;
    this.onTime = () => {}; // called with the position in seconds, or null if nothing is playing
  }

  load(samples) {
    this.stop();
    this.buffer = samples && samples.length ? toBuffer(samples, SAMPLE_RATE) : null;
  }

  get seconds() {
    return this.buffer ? this.buffer.length / SAMPLE_RATE : 0;
  }

  toggle() {
    if (this.source) this.stop();
    else this.play(0, this.seconds);
  }

  play(start, end) {
    this.stop();
    if (!this.buffer) return;
    this.context ??= new AudioContext();
    this.context.resume();
    const source = this.context.createBufferSource();
    source.buffer = this.buffer;
    source.connect(this.context.destination);
    source.onended = () => this.source === source && this.stop();
    source.start(0, start, end - start);
    this.source = source;
    this.begin = this.context.currentTime - start;
    this.follow();
  }

  stop() {
    const source = this.source;
    this.source = null;
    if (source) source.stop();
    this.onTime(null);
  }

  follow() {
    if (!this.source) return;
    this.onTime(this.context.currentTime - this.begin);
    requestAnimationFrame(() => this.follow());
  }
}
