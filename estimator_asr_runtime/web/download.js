// Downloads the page's files, and reports the progress.

export class Downloads {
  // `files` maps file names to { num_bytes, sha256 }; onProgress is called with the fraction of bytes received.
  constructor(files, onProgress) {
    Object.assign(this, { files, onProgress, received: 0 });
    this.total = Object.values(files).reduce((sum, { num_bytes }) => sum + num_bytes, 0);
  }

  // Returns the bytes of a file; throws an error for the user if the file is missing or damaged.
  async read(name) {
    const response = await request(name);
    const bytes = new Uint8Array(this.files[name].num_bytes);
    let filled = 0;
    const reader = response.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      if (filled + part.value.length > bytes.length) throw damaged(name);
      bytes.set(part.value, filled);
      filled += part.value.length;
      this.count(part.value.length);
    }
    if (filled !== bytes.length || (await isChanged(bytes, this.files[name].sha256))) throw damaged(name);
    return bytes.buffer;
  }

  count(numBytes) {
    this.received += numBytes;
    this.onProgress(this.received / this.total);
  }
}

// Requests a file; before it uses a cached copy, the browser asks the server whether the copy is still current.
export async function request(name) {
  const response = await fetch(new URL(name, import.meta.url), { cache: "no-cache" }).catch((error) => {
    throw new Error(`${name} cannot be downloaded (${error.message}). Is the web server still running?`);
  });
  if (response.ok) return response;
  throw new Error(`the web server responded to the request for ${name} with status ${response.status}. Copy the folder again.`);
}

// Browsers compute digests only over https and on localhost; elsewhere, only the size is checked.
async function isChanged(bytes, digest) {
  if (!globalThis.crypto?.subtle) return false;
  const actual = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(actual, (byte) => byte.toString(16).padStart(2, "0")).join("") !== digest;
}

function damaged(name) {
  return new Error(`${name} is damaged: it is not the file that model.json lists. Copy the folder again, and reload the page.`);
}
