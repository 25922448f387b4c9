// Status of an utterance: ok, or why its transcript is empty; equals statuses.py.

const SILENT_PEAK = Math.fround(0.0005); // of full scale; audio below is silent
const LOUDEST_PEAK = 1e12; // full scale is 1; the energy of a much higher one does not fit into float32

// Returns the status of a waveform, Float32Array at the sample rate of the model.
export function check(waveform, settings) {
  if (waveform.length > settings.max_seconds * settings.sample_rate) return "too_long";
  if (waveform.length < Math.max(settings.min_samples, 1)) return "empty";
  const peak = waveform.reduce((highest, each) => Math.max(highest, Math.abs(each)), 0); // NaN if one sample is
  if (!(peak <= LOUDEST_PEAK)) return "not_finite";
  return peak < SILENT_PEAK ? "silent" : "ok";
}
