// Pieces of words joined to words. The weight of a word is the sum over its keys and the mean over
// its queries, so that rows still add up to 1.
import { visible } from './visible';

export interface Groups {
  names: string[];
  of: number[]; // the group of each token
  first: number[]; // the first token of each group
  pieces: string[]; // the tokens of each group, as a text; '': it is one token, named as it is
}

// Words, and the name of each token by itself.
export interface Words extends Groups {
  labels: string[];
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

const isNamed = (token: string): boolean => /^<.*>$|^\[.*\]$/.test(token); // such as <s> and [SEP]

export function marksOf(tokens: readonly string[]): Marks {
  if (tokens.some((t) => (t.length > 2 && t.endsWith('@@')) || t === WORD_END)) return 'after';
  if (tokens.some((t) => t.length > 2 && t.startsWith('##'))) return 'before';
  if (tokens.some((t) => t.startsWith('▁')) || areLetters(tokens)) return 'space';
  return tokens.some((t) => byteOf(t) >= 0) ? 'bytes' : 'none';
}

// A byte as a token, such as "<0xC3>"; -1: the token is none.
function byteOf(token: string): number {
  const match = token.length === 6 && /^<0x([0-9a-f]{2})>$/i.exec(token);
  return match ? parseInt(match[1] as string, 16) : -1;
}

const lengthBy = (lead: number): number =>
  lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const loose = new TextDecoder('utf-8', { ignoreBOM: true });

// The text of UTF-8 bytes; null: they are none.
function decoded(bytes: readonly number[]): string | null {
  try {
    return bytes.includes(-1) ? null : decoder.decode(Uint8Array.from(bytes));
  } catch {
    return null;
  }
}

// The visible characters that the tokens [from, to) are the bytes of. Bytes that make none are left out.
function characters(tokens: readonly string[]): { text: string; from: number; to: number }[] {
  const found: { text: string; from: number; to: number }[] = [];
  for (let from = 0; from < tokens.length; from++) {
    const length = lengthBy(byteOf(tokens[from] as string));
    const bytes = tokens.slice(from, from + length).map(byteOf);
    const text = length && bytes.length === length ? decoded(bytes) : null;
    if (text === null || /[\p{Cc}\p{Z}]/u.test(text)) continue;
    found.push({ text, from, to: from + length });
    from += length - 1;
  }
  return found;
}

// GPT-2 writes its pieces in 256 letters, one for each byte. A visible letter of Latin-1 stands for its own.
const bytesOf = new Map<string, number>();
for (let byte = 0, next = 256; byte < 256; byte++) {
  const isOwn = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  bytesOf.set(String.fromCharCode(isOwn ? byte : next++), byte);
}
const lettersOf = (text: string): number[] => Array.from(text, (letter) => bytesOf.get(letter) ?? -1);

// The text of such letters; null: they are none, or their bytes no text.
const textOfLetters = (letters: string): string | null =>
  /^[Ġ!-~]*$/.test(letters) ? letters.replace(/Ġ/g, ' ') : decoded(lettersOf(letters));

// Whether the tokens are written in these letters: one begins with the letter of a blank or of a line's
// end, or all consist of such letters, whose bytes are a text with characters of several bytes. A text
// that was cut may begin and end within a character.
function areLetters(tokens: readonly string[]): boolean {
  if (tokens.some((t) => /^[ĠĊ]/.test(t))) return true;
  if (!tokens.some((t) => /[\xa1-\u0143]/.test(t))) return false;
  const bytes = lettersOf(tokens.filter((t) => !isNamed(t)).join(''));
  return (
    !bytes.includes(-1) &&
    /^\ufffd{0,3}[^\ufffd]*[^\0-\x7f\ufffd][^\ufffd]*\ufffd{0,3}$/.test(loose.decode(Uint8Array.from(bytes)))
  );
}

// Tokens of which a mark stands for a blank, as running text.
function textOf(tokens: readonly string[], isLetters: boolean): string {
  if (isLetters)
    return loose.decode(Uint8Array.from(lettersOf(tokens.join('')), (byte) => (byte < 0 ? 63 : byte)));
  const parts = tokens.map((token) => token.replace(/▁/g, ' '));
  for (const { text, from, to } of characters(tokens)) parts.fill('', from, to)[from] = text;
  return parts.join('');
}

// Tokens as running text; words that no mark divides have spaces between them.
export function proseOf(tokens: readonly string[], special: ReadonlySet<number>): string {
  const shown = tokens.filter((_, i) => !special.has(i));
  return marksOf(shown) === 'space'
    ? textOf(shown, areLetters(shown)).replace(/^ /, '')
    : join(shown, new Set()).names.join(' ');
}

// The name of a word, with signs for white space. If that shows nothing, it is what the tokens are
// written as.
function nameOf(tokens: readonly string[], marks: Marks, isLetters: boolean): string {
  const written = tokens.join('');
  // Letters whose bytes are no text are shown themselves.
  const text = isLetters
    ? (textOfLetters(written) ?? written.replace(/^Ġ/, ''))
    : textOf(
        tokens.map((token) => bare(token, marks)),
        false,
      );
  const shown = marks === 'space' ? text.replace(/^ (?=\S)/, '') : text; // that blank divides words
  return visible(/^(?:\p{Cf}|\ufe0f)*$/u.test(shown) ? written : shown);
}

// Scripts that put no blanks between words: a piece is a word there.
const UNSPACED =
  /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Mymr}\uff01-\uff65]/u;

// White space other than the blank that divides words.
const isSpace = (text: string): boolean => text !== ' ' && /^\s+$/.test(text);

// Whether the text of the token at `i` goes on where that of the tokens from `begin` ended. Bytes within a
// character always do.
function goesOnAt(tokens: readonly string[], begin: number, i: number, isLetters: boolean): boolean {
  if (/^[Ġ▁]/.test(tokens[i] as string)) return false;
  if (isLetters && ((bytesOf.get((tokens[i] as string).charAt(0)) ?? 0) & 0xc0) === 0x80) return true;
  if (/[!-~]$/.test(tokens[i - 1] as string) && /^[!-~]/.test(tokens[i] as string)) return true;
  const before = textOf(tokens.slice(Math.max(begin, i - 4), i), isLetters);
  const ahead = textOf(tokens.slice(i, i + 4), isLetters); // a character has at most 4 bytes
  const sides = [...before].slice(-1).concat([...ahead].slice(0, 1));
  return before === ' ' || !sides.some((character) => UNSPACED.test(character));
}

// Kept as long as the tokens are: views and labels ask for the same words.
const kept = new WeakMap<readonly string[], Words>();

export function join(tokens: readonly string[], special: ReadonlySet<number>): Words {
  const words = kept.get(tokens) ?? joinAnew(tokens, special);
  kept.set(tokens, words);
  return words;
}

function joinAnew(tokens: readonly string[], special: ReadonlySet<number>): Words {
  const marks = marksOf(tokens);
  const isLetters = marks === 'space' && areLetters(tokens);
  const mends = new Map(characters(tokens).map((c) => [c.from, c]));
  const groups: Groups = { names: [], of: [], first: [], pieces: [] };
  let goesOn = false; // the piece before says so
  let afterByte = false;
  let afterAlone = true;
  for (let i = 0; i < tokens.length; ) {
    const token = tokens[i] as string;
    const character = mends.get(i);
    const to = character?.to ?? i + 1;
    const ends: boolean = marks === 'after' && token === WORD_END && goesOn;
    const isBlank = marks === 'space' && /^[\sĠ▁Ċĉč]+$/.test(token) && isSpace(textOf([token], isLetters));
    const alone: boolean = !character && !ends && (special.has(i) || isNamed(token) || isBlank);
    const begin = groups.first.at(-1) ?? 0;
    const follows =
      marks === 'after'
        ? goesOn
        : marks === 'before'
          ? token.startsWith('##')
          : marks === 'space'
            ? !alone && !afterAlone && goesOnAt(tokens, begin, i, isLetters)
            : false;
    const isByte = marks !== 'space' && character !== undefined && afterByte;
    const joins = !alone && !afterAlone && (follows || isByte);
    goesOn = marks === 'after' && !alone && !ends && (character !== undefined || token.endsWith('@@'));
    afterByte = character !== undefined;
    afterAlone = alone || (marks === 'space' && token.endsWith('Ċ')); // what follows begins a line
    if (!joins) groups.first.push(i);
    for (; i < to; i++) groups.of.push(groups.first.length - 1);
  }
  groups.first.forEach((_, group) => {
    groups.names.push(nameOf(tokens.slice(...spanOf(groups, group)), marks, isLetters));
  });
  const labels = tokens.map((token, i) => labelOf(token, groups.of[i] as number, groups, isLetters));
  groups.first.forEach((_, group) => {
    const of = labels.slice(...spanOf(groups, group));
    groups.pieces.push(of.length > 1 ? of.join(' ') : '');
  });
  return { ...groups, labels };
}

// A token without the mark that says to which word it belongs.
const bare = (token: string, marks: Marks): string =>
  marks === 'after'
    ? token === WORD_END
      ? ''
      : token.replace(/@@$/, '')
    : marks === 'before'
      ? token.replace(/^##/, '')
      : token;

// A piece of a word with its mark, but for blanks and bytes, which are shown as what they are; a token
// that is a whole word has its name.
function labelOf(token: string, group: number, words: Groups, isLetters: boolean): string {
  const [from, to] = spanOf(words, group);
  if (to - from === 1) return words.names[group] as string;
  if (!isLetters) return visible(token.replace(/▁/g, ' '));
  const text = textOfLetters(token);
  const bytes = lettersOf(token);
  return text === null && !bytes.includes(-1)
    ? bytes.map((byte) => (byte === 32 ? '␣' : `<0x${byte.toString(16).toUpperCase()}>`)).join('')
    : visible(text ?? token);
}

// The name of each token.
export const labelsOf = (tokens: readonly string[], special: ReadonlySet<number>): string[] =>
  join(tokens, special).labels;

// Each token as a group of its own.
export function single(tokens: readonly string[], special: ReadonlySet<number> = new Set()): Groups {
  const pieces = tokens.map(() => '');
  for (const { text, from, to } of characters(tokens))
    for (let i = from; i < to; i++) pieces[i] = `byte ${i - from + 1} of ${to - from} of ${text}`;
  const each = tokens.map((_, i) => i);
  return { names: labelsOf(tokens, special), of: each, first: each, pieces };
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
