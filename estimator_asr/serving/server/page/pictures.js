// Draws the waveform and the spectrogram, one column of pixels per step of time.

const FFT_SIZE = 512;
const BINS = FFT_SIZE / 2;
const RANGE_DB = 70; // values that are this much lower than the loudest one are black

export function drawWaveform(canvas, samples, colour) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  context.fillStyle = colour;
  const peak = Math.max(1e-6, samples.reduce((most, x) => Math.max(most, Math.abs(x)), 0));
  for (let x = 0; x < width; x++) {
    let low = 0, high = 0;
    const end = Math.ceil(((x + 1) * samples.length) / width);
    for (let i = Math.floor((x * samples.length) / width); i < end; i++) {
      low = Math.min(low, samples[i]);
      high = Math.max(high, samples[i]);
    }
    const top = (height / 2) * (1 - high / peak);
    context.fillRect(x, top, 1, Math.max(1, (height / 2) * (1 - low / peak) - top));
  }
}

export function drawSpectrogram(canvas, samples) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  const columns = Array.from({ length: width }, (_, x) => decibels(samples, Math.floor((x * samples.length) / width)));
  const loudest = Math.max(...columns.map((column) => column.reduce((a, b) => Math.max(a, b), -200)));
  const picture = context.createImageData(width, height);
  columns.forEach((column, x) => {
    for (let y = 0; y < height; y++) {
      const value = column[Math.floor(((height - 1 - y) * BINS) / height)];
      const shade = Math.max(0, 1 + (value - loudest) / RANGE_DB);
      picture.data.set(colourOf(shade), 4 * (y * width + x));
    }
  });
  context.putImageData(picture, 0, 0);
}

// Maps 0 to 1 to colours from black through blue and orange to white.
function colourOf(shade) {
  const ramp = (begin, end) => 255 * Math.max(0, Math.min(1, (shade - begin) / (end - begin)));
  return [ramp(0.35, 0.75), ramp(0.55, 1), shade < 0.5 ? ramp(0.05, 0.5) * 0.7 : 178 - ramp(0.5, 0.7) * 0.5 + ramp(0.8, 1), 255];
}

// Returns the power in dB of the frame around a sample, with a Hann window.
function decibels(samples, centre) {
  const real = new Float64Array(FFT_SIZE), imaginary = new Float64Array(FFT_SIZE);
  for (let i = 0; i < FFT_SIZE; i++) {
    const sample = samples[centre + i - FFT_SIZE / 2] || 0;
    real[i] = sample * (0.5 - 0.5 * Math.cos((2 * Math.PI * i) / FFT_SIZE));
  }
  transform(real, imaginary);
  return Array.from({ length: BINS }, (_, k) => 10 * Math.log10(real[k] ** 2 + imaginary[k] ** 2 + 1e-12));
}

// Radix-2 FFT in place (Cooley and Tukey, 1965).
function transform(real, imaginary) {
  const size = real.length;
  for (let i = 1, j = 0; i < size; i++) {
    let bit = size >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [real[i], real[j]] = [real[j], real[i]];
      [imaginary[i], imaginary[j]] = [imaginary[j], imaginary[i]];
    }
  }
  for (let length = 2; length <= size; length <<= 1) {
    for (let k = 0; k < length / 2; k++) {
      const c = Math.cos((2 * Math.PI * k) / length), s = -Math.sin((2 * Math.PI * k) / length);
      for (let i = k; i < size; i += length) {
        const j = i + length / 2;
        const x = real[j] * c - imaginary[j] * s, y = real[j] * s + imaginary[j] * c;
        real[j] = real[i] - x;
        imaginary[j] = imaginary[i] - y;
        real[i] += x;
        imaginary[i] += y;
      }
    }
  }
}
