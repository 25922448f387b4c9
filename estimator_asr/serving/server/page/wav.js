// WAV files of recordings, as the server reads them.

export const SAMPLE_RATE = 16000;

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
