// Which weights are drawn as lines.
export interface Edge {
  q: number;
  k: number;
  weight: number;
}

// The strongest keys of a row: the fewest that hold the share `p` of its mass, or all of at least
// `least`; at most `most`.
export function edgesOfRow(
  row: Float32Array,
  q: number,
  by: { p: number } | { least: number },
  most: number,
): Edge[] {
  const order = [...row.keys()]
    .filter((k) => (row[k] as number) > 0)
    .sort((a, b) => (row[b] as number) - (row[a] as number));
  let total = 0;
  for (const weight of row) total += weight;
  const edges: Edge[] = [];
  let held = 0;
  for (const k of order) {
    const weight = row[k] as number;
    if (edges.length >= most || ('p' in by ? held >= by.p * total : weight < by.least)) break;
    edges.push({ q, k, weight });
    held += weight;
  }
  return edges;
}

// The edges of all rows, of which the weakest give way beyond `most`.
export function edgesOf(
  weights: Float32Array,
  cols: number,
  by: { p: number } | { least: number },
  most: number,
): Edge[] {
  const edges: Edge[] = [];
  for (let q = 0; q * cols < weights.length; q++)
    edges.push(...edgesOfRow(weights.subarray(q * cols, (q + 1) * cols), q, by, cols));
  return edges.length <= most ? edges : edges.sort((a, b) => b.weight - a.weight).slice(0, most);
}
