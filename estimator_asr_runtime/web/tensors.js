// Runs graphs on sequences of token ids.

const GROUP_ROWS = 4; // sequences per run; a graph's memory grows with their number

// Runs a graph on a few sequences at a time; returns each sequence's { outputs, row }: the outputs and its row.
export async function runOnSequences(ort, graph, sequences, others = {}) {
  const results = [];
  for (let start = 0; start < sequences.length; start += GROUP_ROWS) {
    const group = sequences.slice(start, start + GROUP_ROWS);
    const outputs = await graph.run({ ...others, ...padRows(ort, group) });
    group.forEach((_, row) => results.push({ outputs, row }));
  }
  return results;
}

// Returns token_ids int32 [rows, length], padded with 0, and num_tokens int32 [rows].
function padRows(ort, rows) {
  const length = Math.max(1, ...rows.map((row) => row.length));
  const ids = new Int32Array(rows.length * length);
  rows.forEach((row, i) => ids.set(row, i * length));
  const counts = Int32Array.from(rows, (row) => row.length);
  return {
    token_ids: new ort.Tensor("int32", ids, [rows.length, length]),
    num_tokens: new ort.Tensor("int32", counts, [rows.length]),
  };
}
