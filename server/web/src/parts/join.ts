// Pieces of words joined to words. The weight of a word is the sum over its keys and the mean over
// its queries, so that rows still add up to 1.
export interface Groups {
  names: string[];
  of: number[]; // the group of each token
  first: number[]; // the first token of each group
}

// Whether a token goes on with the one after it, or goes on from the one before: the marks of
// subword-nmt (jump@@ s), of WordPiece (jump ##s), of SentencePiece (▁jump s) and of GPT-2 (Ġjump s).
type Marks = 'after' | 'before' | 'space' | 'none';

export function marksOf(tokens: readonly string[]): Marks {
  if (tokens.some((t) => t.length > 2 && t.endsWith('@@'))) return 'after';
  if (tokens.some((t) => t.length > 2 && t.startsWith('##'))) return 'before';
  if (tokens.some((t) => /^[Ġ▁]/.test(t))) return 'space';
  return 'none';
}

export const single = (tokens: readonly string[]): Groups =>
  ({ names: [...tokens], of: tokens.map((_, i) => i), first: tokens.map((_, i) => i) });

export function join(tokens: readonly string[], special: ReadonlySet<number>): Groups {
  const marks = marksOf(tokens);
  if (marks === 'none') return single(tokens);
  const groups: Groups = { names: [], of: [], first: [] };
  let goesOn = false;
  tokens.forEach((token, i) => {
    const alone = special.has(i) || /^<.*>$|^\[.*\]$/.test(token);
    const joins = i > 0 && !alone && (marks === 'after' ? goesOn : marks === 'before' ? token.startsWith('##') : !/^[Ġ▁]/.test(token));
    goesOn = marks === 'after' && !alone && token.endsWith('@@');
    const part = token.replace(/@@$|^##|^[Ġ▁]/, (mark) => ((mark === '@@') === (marks === 'after') || mark !== '@@' ? '' : mark));
    if (joins) {
      groups.names[groups.names.length - 1] += part;
    } else {
      groups.names.push(part || token);
      groups.first.push(i);
    }
    groups.of.push(groups.names.length - 1);
  });
  return groups;
}

// The weights [queries, keys] between groups.
export function joinWeights(weights: Float32Array, queries: Groups, keys: Groups): Float32Array {
  const rows = queries.names.length;
  const cols = keys.names.length;
  const sums = new Float64Array(rows * cols);
  const sizes = new Array<number>(rows).fill(0);
  queries.of.forEach((row, q) => {
    sizes[row] = (sizes[row] as number) + 1;
    keys.of.forEach((col, k) => {
      sums[row * cols + col] = (sums[row * cols + col] as number) + (weights[q * keys.of.length + k] as number);
    });
  });
  return Float32Array.from(sums, (sum, i) => sum / (sizes[Math.floor(i / cols)] as number));
}
