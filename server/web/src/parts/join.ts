// Pieces of words joined to words. The weight of a word is the sum over its keys and the mean over
// its queries, so that rows still add up to 1.
export interface Groups {
  names: string[];
  of: number[]; // the group of each token
  first: number[]; // the first token of each group
  pieces: string[]; // the tokens of each group, as a text; '': it is one token, named as it is
}

// The tokens [from, to) of a group.
export const spanOf = (groups: Groups, group: number): [number, number] => [
  groups.first[group] as number,
  groups.first[group + 1] ?? groups.of.length,
];

// How tokens mark that they belong to one word. A mark may stand on a token that the next token
// continues, or on a token that continues the one before: the marks of subword-nmt (jump@@ s), of
// WordPiece (jump ##s), of SentencePiece (▁jump s) and of GPT-2 (Ġjump s). "bytes": no token has a
// mark, but characters are divided into bytes.
type Marks = 'after' | 'before' | 'space' | 'bytes' | 'none';

const WORD_END = '</w>'; // after the last byte of a word, in the vocabularies of subword-nmt

export function marksOf(tokens: readonly string[]): Marks {
  if (tokens.some((t) => (t.length > 2 && t.endsWith('@@')) || t === WORD_END)) return 'after';
  if (tokens.some((t) => t.length > 2 && t.startsWith('##'))) return 'before';
  if (tokens.some((t) => /^[Ġ▁]/.test(t))) return 'space';
  return tokens.some((t) => byteOf(t) >= 0) ? 'bytes' : 'none';
}

export function single(tokens: readonly string[]): Groups {
  const pieces = tokens.map(() => '');
  for (const { text, from, to } of characters(tokens))
    for (let i = from; i < to; i++) pieces[i] = `byte ${i - from + 1} of ${to - from} of ${text}`;
  return { names: [...tokens], of: tokens.map((_, i) => i), first: tokens.map((_, i) => i), pieces };
}

// A byte as a token, such as "<0xC3>"; -1: the token is none.
function byteOf(token: string): number {
  const match = /^<0x([0-9a-f]{2})>$/i.exec(token);
  return match ? parseInt(match[1] as string, 16) : -1;
}

const lengthBy = (lead: number): number =>
  lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

// The visible characters that the tokens [from, to) are the bytes of. Bytes that make none are left out.
function characters(tokens: readonly string[]): { text: string; from: number; to: number }[] {
  const found: { text: string; from: number; to: number }[] = [];
  for (let from = 0; from < tokens.length; from++) {
    const length = lengthBy(byteOf(tokens[from] as string));
    const bytes = tokens.slice(from, from + length).map(byteOf);
    if (!length || bytes.length < length || bytes.includes(-1)) continue;
    try {
      const text = decoder.decode(Uint8Array.from(bytes));
      if (/[\p{Cc}\p{Z}]/u.test(text)) continue;
      found.push({ text, from, to: from + length });
      from += length - 1;
    } catch {
      /* no UTF-8 */
    }
  }
  return found;
}

// GPT-2 writes its pieces in 256 letters, one for each byte. A visible letter of Latin-1 stands for its own.
const bytesOf = new Map<string, number>();
for (let byte = 0, next = 256; byte < 256; byte++) {
  const isOwn = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  bytesOf.set(String.fromCharCode(isOwn ? byte : next++), byte);
}

const loose = new TextDecoder('utf-8', { ignoreBOM: true });

// Tokens as running text: the bytes that GPT-2's letters stand for, else words with spaces between them.
export function proseOf(tokens: readonly string[], special: ReadonlySet<number>): string {
  const shown = tokens.filter((_, i) => !special.has(i));
  if (!shown.some((t) => t.startsWith('Ġ'))) return join(shown, new Set()).names.join(' ');
  return loose.decode(Uint8Array.from(Array.from(shown.join(''), (letter) => bytesOf.get(letter) ?? 63)));
}

// The text of such letters. If their bytes are not text or show nothing, returns the letters
// themselves.
function textOfLetters(letters: string): string {
  const bytes = Array.from(letters, (letter) => bytesOf.get(letter) ?? -1);
  if (bytes.includes(-1)) return letters;
  try {
    return decoder.decode(Uint8Array.from(bytes)).trim() || letters;
  } catch {
    return letters;
  }
}

const mark: Record<Marks, RegExp | null> = {
  after: /@@$/,
  before: /^##/,
  space: /^[Ġ▁]/,
  bytes: null,
  none: null,
};

export function join(tokens: readonly string[], special: ReadonlySet<number>): Groups {
  const marks = marksOf(tokens);
  if (marks === 'none') return single(tokens);
  const decoded = new Map(characters(tokens).map((c) => [c.from, c]));
  const groups: Groups = { names: [], of: [], first: [], pieces: [] };
  let goesOn = false; // the piece before says so
  let afterByte = false;
  let afterAlone = true;
  for (let i = 0; i < tokens.length; ) {
    const token = tokens[i] as string;
    const character = decoded.get(i);
    const to = character?.to ?? i + 1;
    const ends: boolean = marks === 'after' && token === WORD_END && goesOn;
    const alone: boolean = !character && !ends && (special.has(i) || /^<.*>$|^\[.*\]$/.test(token));
    const follows =
      marks === 'after'
        ? goesOn
        : marks === 'before'
          ? token.startsWith('##')
          : marks === 'space' && !/^[Ġ▁Ċ]/.test(token);
    const joins = !alone && !afterAlone && (follows || (character !== undefined && afterByte));
    goesOn = marks === 'after' && !alone && !ends && (character !== undefined || token.endsWith('@@'));
    afterByte = character !== undefined;
    afterAlone = alone || (marks === 'space' && token.endsWith('Ċ')); // what follows begins a line
    const part = ends
      ? ''
      : (character?.text ?? (mark[marks] && !alone ? token.replace(mark[marks], '') : token));
    if (joins) {
      groups.names[groups.names.length - 1] += part;
    } else {
      groups.names.push(part);
      groups.first.push(i);
    }
    for (; i < to; i++) groups.of.push(groups.names.length - 1);
  }
  const isLetters = tokens.some((t) => t.startsWith('Ġ'));
  groups.names.forEach((letters, group) => {
    const name = isLetters ? textOfLetters(letters) : letters;
    groups.names[group] = name;
    const [from, to] = spanOf(groups, group);
    // nothing to see
    if (/^(?:\p{Cf}|\ufe0f)*$/u.test(name)) groups.names[group] = tokens.slice(from, to).join('');
    groups.pieces.push(to - from > 1 ? tokens.slice(from, to).join(' ') : '');
  });
  return groups;
}

export const hasJoined = (groups: Groups): boolean => groups.names.length < groups.of.length;

// Sums over the tokens of each group.
export function sumGroups(data: ArrayLike<number>, groups: Groups): Float32Array {
  const sums = new Float64Array(groups.names.length);
  groups.of.forEach((group, i) => {
    sums[group] = (sums[group] as number) + (data[i] as number);
  });
  return Float32Array.from(sums);
}

export const meanGroups = (data: ArrayLike<number>, groups: Groups): Float32Array =>
  sumGroups(data, groups).map((sum, group) => {
    const [from, to] = spanOf(groups, group);
    return sum / (to - from);
  });

// The weights [queries, keys] between groups.
export function joinWeights(weights: Float32Array, queries: Groups, keys: Groups): Float32Array {
  const rows = queries.names.length;
  const cols = keys.names.length;
  const sums = new Float64Array(rows * cols);
  const sizes = new Array<number>(rows).fill(0);
  queries.of.forEach((row, q) => {
    sizes[row] = (sizes[row] as number) + 1;
    keys.of.forEach((col, k) => {
      sums[row * cols + col] =
        (sums[row * cols + col] as number) + (weights[q * keys.of.length + k] as number);
    });
  });
  return Float32Array.from(sums, (sum, i) => sum / (sizes[Math.floor(i / cols)] as number));
}

// Which words [queries, keys] are hidden: those of which no token of the query sees a token of the key.
export function joinHidden(
  hidden: readonly (readonly [number, number, number])[],
  queries: Groups,
  keys: Groups,
): Uint8Array {
  const cols = keys.names.length;
  const tokens = keys.of.length;
  const gone = new Uint8Array(queries.of.length * tokens);
  for (const [row, from, to] of hidden) gone.fill(1, row * tokens + from, row * tokens + to);
  const hides = new Uint8Array(queries.names.length * cols).fill(1);
  queries.of.forEach((row, q) => {
    keys.of.forEach((col, k) => {
      if (!gone[q * tokens + k]) hides[row * cols + col] = 0;
    });
  });
  return hides;
}
