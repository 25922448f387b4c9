// The status of an utterance: ok, or the reason for an empty transcript; equivalent to statuses.py.

const SILENT_PEAK = Math.fround(0.0005); // full scale is 1; audio with a lower peak is silent
const LOUDEST_PEAK = 1e12; // full scale is 1; the energy of a much higher peak overflows float32

// Returns the status of a waveform, a Float32Array at the model's sample rate.
export function check(waveform, settings) {
  if (waveform.length > settings.max_seconds * settings.sample_rate) return "too_long";
  if (waveform.length < Math.max(settings.min_samples, 1)) return "empty";
  const peak = waveform.reduce((highest, x) => Math.max(highest, Math.abs(x)), 0); // NaN if any sample is NaN
  if (!(peak <= LOUDEST_PEAK)) return "not_finite";
  return peak < SILENT_PEAK ? "silent" : "ok";
}
