// Inputs of the graphs.

// Returns token_ids int32 [rows, length], padded with 0, and num_tokens int32 [rows].
export function padRows(ort, rows) {
  const length = Math.max(1, ...rows.map((each) => each.length));
  const ids = new Int32Array(rows.length * length);
  rows.forEach((row, i) => ids.set(row, i * length));
  const counts = Int32Array.from(rows, (row) => row.length);
  return {
    token_ids: new ort.Tensor("int32", ids, [rows.length, length]),
    num_tokens: new ort.Tensor("int32", counts, [rows.length]),
  };
}
