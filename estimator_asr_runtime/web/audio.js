// Audio in the browser: files and the microphone to Float32Array at the sample rate of the model.

// Decodes a file of any format that the browser knows; channels are averaged.
export async function decode(bytes, rate) {
  const context = new OfflineAudioContext(1, 1, rate); // whose rate is that of the result
  return mix(await context.decodeAudioData(bytes));
}

function mix(buffer) {
  const samples = new Float32Array(buffer.length);
  for (let channel = 0; channel < buffer.numberOfChannels; channel++) {
    const values = buffer.getChannelData(channel);
    for (let i = 0; i < samples.length; i++) samples[i] += values[i] / buffer.numberOfChannels;
  }
  return samples;
}

async function resample(samples, fromRate, rate) {
  if (!samples.length) return samples;
  const context = new OfflineAudioContext(1, Math.max(1, Math.round((samples.length * rate) / fromRate)), rate);
  const source = context.createBufferSource();
  source.buffer = context.createBuffer(1, samples.length, fromRate);
  source.buffer.copyToChannel(samples, 0);
  source.connect(context.destination);
  source.start();
  return (await context.startRendering()).getChannelData(0);
}

// Records until stop(), which returns the samples; onPeak gets the peak of each block.
export async function record(rate, onPeak) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const context = new AudioContext();
  const end = () => {
    stream.getTracks().forEach((track) => track.stop());
    return context.close();
  };
  try {
    await context.audioWorklet.addModule("recorder.js");
    await context.resume(); // Safari starts it suspended
  } catch (error) {
    await end();
    throw error;
  }
  const finish = collect(context, stream, onPeak);
  return async function stop() {
    const samples = await finish();
    await end();
    return resample(samples, context.sampleRate, rate);
  };
}

// Collects the blocks of a stream; returns a function that ends this and returns all samples.
function collect(context, stream, onPeak) {
  const node = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
  const blocks = [];
  let isWhole = null; // resolves when the last block has come
  node.port.onmessage = ({ data }) => {
    blocks.push(data.block);
    if (data.isLast) isWhole();
    onPeak(data.block.reduce((peak, x) => Math.max(peak, Math.abs(x)), 0));
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
