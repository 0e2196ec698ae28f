// Which weights are drawn as lines.
export interface Edge {
  q: number;
  k: number;
  weight: number;
}

// The strongest keys of a row: the smallest number of keys that together have the share `p` of the
// row's weight, or all keys with a weight of at least `least`. In both cases at most `most` keys.
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

// The edges of all rows.
export function edgesOf(weights: Float32Array, cols: number, by: { p: number } | { least: number }): Edge[] {
  const edges: Edge[] = [];
  for (let q = 0; q * cols < weights.length; q++)
    edges.push(...edgesOfRow(weights.subarray(q * cols, (q + 1) * cols), q, by, cols));
  return edges;
}

// As many edges as can be told apart: where there are more, the weakest are left out.
export const EDGES_MOST = 400;
export const strongestOf = (edges: readonly Edge[]): readonly Edge[] =>
  edges.length <= EDGES_MOST ? edges : [...edges].sort((a, b) => b.weight - a.weight).slice(0, EDGES_MOST);
