// Reads files and the microphone as Float32Array, for the server's page and the page without a server.

// Decodes a file in any format that the browser supports; channels are mixed.
export async function decode(bytes, rate) {
  const context = new OfflineAudioContext(1, 1, rate); // decodeAudioData resamples to the rate of its context
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

async function resample(samples, fromRate, rate) {
  if (!samples.length) return samples;
  const context = new OfflineAudioContext(1, Math.max(1, Math.round((samples.length * rate) / fromRate)), rate);
  const source = context.createBufferSource();
  source.buffer = toBuffer(samples, fromRate);
  source.connect(context.destination);
  source.start();
  return (await context.startRendering()).getChannelData(0);
}

export function toBuffer(samples, rate) {
  const buffer = new AudioBuffer({ length: Math.max(1, samples.length), sampleRate: rate });
  buffer.copyToChannel(samples, 0);
  return buffer;
}

// Returns the height of the level meter for a block.
export function findLevel(block) {
  return Math.sqrt(block.reduce((peak, x) => Math.max(peak, Math.abs(x)), 0));
}

// Starts a recording; returns stop(), which ends it and returns the samples at `rate`. Meanwhile, onBlock is called
// with each block of samples and its sample rate.
export async function record(rate, onBlock) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const context = new AudioContext();
  const end = () => {
    stream.getTracks().forEach((track) => track.stop());
    return context.close();
  };
  try {
    await context.audioWorklet.addModule(new URL("recorder.js", import.meta.url));
    await context.resume(); // Safari creates the context suspended
  } catch (error) {
    await end();
    throw error;
  }
  const finish = collect(context, stream, onBlock);
  return async function stop() {
    const samples = await finish();
    await end();
    return resample(samples, context.sampleRate, rate);
  };
}

// Collects the blocks of a stream; returns a function that stops collecting and returns all samples.
function collect(context, stream, onBlock) {
  const node = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
  const blocks = [];
  let isWhole = null; // function to call when the last block has arrived
  node.port.onmessage = ({ data }) => {
    blocks.push(data.block);
    if (data.isLast) isWhole();
    onBlock(data.block, context.sampleRate);
  };
  context.createMediaStreamSource(stream).connect(node);
  return async function finish() {
    await new Promise((done) => {
      isWhole = done;
      node.port.postMessage("stop");
    });
    return concatenate(blocks);
  };
}

function concatenate(blocks) {
  const samples = new Float32Array(blocks.reduce((sum, block) => sum + block.length, 0));
  let place = 0;
  for (const block of blocks) {
    samples.set(block, place);
    place += block.length;
  }
  return samples;
}
