// Requests to the server.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status; // HTTP status; 0 if the server does not respond
  }
}

async function ask(path, token, options = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let answer, text;
  try {
    answer = await fetch(path, { ...options, headers });
    text = await answer.text();
  } catch (error) {
    throw new Refused(0, String(error));
  }
  if (!answer.ok) throw new Refused(answer.status, describe(text));
  return JSON.parse(text);
}

function describe(text) {
  try {
    const { error } = JSON.parse(text);
    return error.message || error;
  } catch {
    return text;
  }
}

// Returns the version of the model that is being served.
export async function askVersion(token) {
  const { model_version_status } = await ask("v1/models/asr", token);
  return model_version_status.find(({ state }) => state === "AVAILABLE").version;
}

// Recognises the audio in a Blob; returns {status, text, transcript (the text without marks, if text has marks), confidence,
// n_best: [{transcript, score}], characters: [{character, pinyin, start, end, confidence}]}; times are in seconds.
export async function transcribe(blob, name, hotwords, token) {
  const form = new FormData();
  form.append("file", blob, name);
  form.append("model", "asr");
  form.append("response_format", "verbose_json");
  form.append("timestamp_granularities[]", "word");
  if (hotwords) form.append("hotwords", hotwords);
  return ask("v1/audio/transcriptions", token, { method: "POST", body: form });
}
