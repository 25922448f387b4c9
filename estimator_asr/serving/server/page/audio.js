// Audio in the browser: decoding, resampling to the model's rate, WAV files, and recording.

export const SAMPLE_RATE = 16000;

// Decodes a file in any format that the browser supports; returns Float32Array at SAMPLE_RATE, with mixed channels.
export async function decode(bytes) {
  const context = new OfflineAudioContext(1, 1, SAMPLE_RATE);
  return mix(await context.decodeAudioData(bytes));
}

// Returns the mean of the channels, or a loud channel if they cancel each other; equivalent to _mix in audio_files.py.
export function mix(buffer) {
  const channels = Array.from({ length: buffer.numberOfChannels }, (_, i) => buffer.getChannelData(i));
  const sum = channels[0].map((_, i) => channels.reduce((total, channel) => total + channel[i], 0));
  const levels = channels.map(variance);
  const loudest = Math.max(...levels);
  if (variance(sum) < 0.04 * loudest) return channels[levels.findIndex((level) => level >= 0.25 * loudest)];
  return sum.map((value) => value / channels.length);
}

function variance(samples) {
  const mean = samples.reduce((sum, sample) => sum + sample, 0) / samples.length;
  return samples.reduce((sum, sample) => sum + (sample - mean) ** 2, 0) / samples.length;
}

async function resample(samples, rate) {
  const length = Math.max(1, Math.round((samples.length * SAMPLE_RATE) / rate));
  const context = new OfflineAudioContext(1, length, SAMPLE_RATE);
  const source = context.createBufferSource();
  source.buffer = toBuffer(samples, rate);
  source.connect(context.destination);
  source.start();
  return (await context.startRendering()).getChannelData(0);
}

export function toBuffer(samples, rate = SAMPLE_RATE) {
  const buffer = new AudioBuffer({ length: Math.max(1, samples.length), sampleRate: rate });
  buffer.copyToChannel(samples, 0);
  return buffer;
}

// Returns a WAV file of 16-bit PCM as Uint8Array.
export function encodeWav(samples) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (offset, value) => [...value].forEach((c, i) => view.setUint8(offset + i, c.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, SAMPLE_RATE, true);
  view.setUint32(28, 2 * SAMPLE_RATE, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((x, i) => view.setInt16(44 + 2 * i, Math.max(-1, Math.min(1, x)) * 32767, true));
  return new Uint8Array(view.buffer);
}

// Records until stop(), which returns Float32Array at SAMPLE_RATE; onBlock is called with each block and its rate.
export async function record(onBlock) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const context = new AudioContext();
  const end = () => {
    stream.getTracks().forEach((track) => track.stop());
    return context.close();
  };
  try {
    await context.audioWorklet.addModule("page/recorder.js");
  } catch (error) {
    await end();
    throw error;
  }
  const node = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
  const blocks = [];
  let isWhole = null; // called when the last block has arrived
  node.port.onmessage = ({ data }) => {
    blocks.push(data.block);
    if (data.isLast) isWhole();
    onBlock(data.block, context.sampleRate);
  };
  context.createMediaStreamSource(stream).connect(node);
  return async function stop() {
    const rate = context.sampleRate;
    await new Promise((done) => {
      isWhole = done;
      node.port.postMessage("stop");
    });
    await end();
    const samples = new Float32Array(blocks.reduce((sum, block) => sum + block.length, 0));
    let place = 0;
    for (const block of blocks) {
      samples.set(block, place);
      place += block.length;
    }
    return samples.length ? resample(samples, rate) : samples;
  };
}
