// Downloads the files of the page, and says how much of them is there.

export class Downloads {
  // `sizes` and `digests` (SHA-256) are by name; onProgress gets the fraction of all bytes that has come.
  constructor(sizes, digests, onProgress) {
    Object.assign(this, { sizes, digests, onProgress, received: 0 });
    this.total = Object.values(sizes).reduce((sum, each) => sum + each, 0);
  }

  // Returns the bytes of a file; throws an error of one sentence if it is missing or of another size.
  async read(name) {
    const response = await request(name);
    const bytes = new Uint8Array(this.sizes[name]);
    let filled = 0;
    const reader = response.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      if (filled + part.value.length > bytes.length) throw damaged(name);
      bytes.set(part.value, filled);
      filled += part.value.length;
      this.count(part.value.length);
    }
    if (filled !== bytes.length || (await isChanged(bytes, this.digests[name]))) throw damaged(name);
    return bytes.buffer;
  }

  count(numBytes) {
    this.received += numBytes;
    this.onProgress(this.received / this.total);
  }
}

// Asks the server whether its file is still the one in the browser's cache.
export async function request(name) {
  const response = await fetch(new URL(name, import.meta.url), { cache: "no-cache" }).catch((error) => {
    throw new Error(`${name}: cannot be downloaded (${error.message}); is the web server still running?`);
  });
  if (response.ok) return response;
  throw new Error(`${name}: the web server answers ${response.status}, expected a file of the page; copy the folder again`);
}

// Browsers compute digests over https and on localhost alone; elsewhere the size must do.
async function isChanged(bytes, digest) {
  if (!globalThis.crypto?.subtle) return false;
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(found, (each) => each.toString(16).padStart(2, "0")).join("") !== digest;
}

function damaged(name) {
  return new Error(`${name}: is damaged, it is not the file that files.json lists; copy the folder again, and reload the page`);
}
