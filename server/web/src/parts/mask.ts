// What a mask hides, in words for readers who do not know masks. The service describes a mask by
// one sentence for each layer of the mask ("causal: query i sees keys 0 to i; lengths: of 8 keys
// the first 5 are real"). Sentences that are not known here stay as they are.
import { position } from './digits';

const SEES_ALL = 'no key is hidden';

// The last `count` of `keys`, or none of them.
function padding(count: number, keys: number, last: boolean): string {
  if (!count) return '';
  const which =
    count === 1 ? (last ? 'the last' : '1') : last ? `the last ${position(count)}` : position(count);
  return `${which} of ${position(keys)} keys ${count === 1 ? 'is' : 'are'} padding`;
}

// The number of a batch entry in a list such as "6, 2, …". A list of one number is for all entries.
function ofEntry(list: string, batch: number): number | null {
  const numbers = list
    .split(',')
    .map((text) => parseInt(text, 10))
    .filter((n) => !Number.isNaN(n));
  return numbers.length === 1 ? (numbers[0] as number) : (numbers[batch] ?? null);
}

const SOME = 'in some batch entries the last keys are padding';

// "i", "i + 2" or "i - 3" as a number.
const shiftOf = (text: string): number => Number(text.replace(/[i\s]/g, '') || 0);

function causal(to: string): string {
  const shift = shiftOf(to);
  if (!shift) return 'causal: each query sees the keys up to itself';
  if (shift > 0) return `causal: query 0 sees keys 0 to ${position(shift)}, and each next query one more`;
  return `causal: query ${position(-shift)} sees key 0 alone, and each next query one more`;
}

function window_(from: string, to: string): string {
  const left = from === '0' ? null : -shiftOf(from);
  const right = to === 'the last' ? null : shiftOf(to);
  const say = (count: number | null, side: string): string =>
    count === null
      ? `all keys ${side}`
      : count === 1
        ? `the key ${side}`
        : `the ${position(count)} keys ${side}`;
  if ((left ?? 0) < 0 || (right ?? 0) < 0) return `window: query i sees keys ${from} to ${to}`;
  const parts = [
    left === 0 ? '' : `${say(left, 'before it')}`,
    right === 0 ? '' : say(right, 'after it'),
  ].filter(Boolean);
  const [before, after] = parts;
  if (!before) return 'window: each query sees itself alone';
  return `window: each query sees ${after ? `itself, ${before} and ${after}` : `itself and ${before}`}`;
}

const CAUSAL = /^causal: query i sees keys 0 to (i(?: [+-] \d+)?)$/;

function sentence(text: string, batch: number): string {
  let found = CAUSAL.exec(text);
  if (found) return causal(found[1] as string);
  found = /^window: query i sees keys (0|i(?: [+-] \d+)?) to (the last|i(?: [+-] \d+)?)$/.exec(text);
  if (found) return window_(found[1] as string, found[2] as string);
  if (/^none: |^window: open on both sides|, hides nothing$/.test(text)) return '';
  found = /of (\d+) keys the first ([\d, …]+) are real/.exec(text);
  if (found) {
    const real = ofEntry(found[2] as string, batch);
    return real === null ? SOME : padding(Number(found[1]) - real, Number(found[1]), true);
  }
  found = /hides ([\d, …]+) of (\d+) keys/.exec(text);
  if (found) {
    const hidden = ofEntry(found[1] as string, batch);
    return hidden === null ? SOME : padding(hidden, Number(found[2]), false);
  }
  found = /, hides (\d+) of its (\d+) cells$/.exec(text);
  // cells may stand for many pairs
  if (found) return `a mask hides ${position(Number(found[1]))} of its ${position(Number(found[2]))} cells`;
  if (/: numbers .*, added to the scores$/.test(text)) return 'numbers are added to the scores';
  return text;
}

export function maskInWords(mask: string, batch: number): string {
  const said = mask
    .split('; ')
    .map((text) => sentence(text, batch))
    .filter(Boolean);
  return said.length ? [...new Set(said)].join('; ') : SEES_ALL;
}

export const seesAll = (mask: string, batch: number): boolean => maskInWords(mask, batch) === SEES_ALL;

export const isCausal = (mask: string): boolean => /(?:^|; )causal: /.test(mask);

// How many keys after itself each query of a causal mask sees; null: the mask is not causal, or batch
// entries differ.
export function causalOffset(mask: string): number | null {
  const found = mask.split('; ').flatMap((text) => CAUSAL.exec(text)?.[1] ?? []);
  return found[0] === undefined ? null : shiftOf(found[0]);
}

type Seen = readonly (readonly boolean[])[]; // by query and key

// A mask that hides nothing is none.
export const unlessAll = (seen: Seen): Seen | null => (seen.every((row) => row.every(Boolean)) ? null : seen);

// A mask as fields of a request: causal is a switch, and `seen` leaves out what causal hides.
export const maskFields = (causal: boolean, seen: Seen | null): Record<string, unknown> => ({
  ...(causal ? { is_causal: true } : {}),
  ...(seen ? { attn_mask: seen } : {}),
});
