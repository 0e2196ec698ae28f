// Reads what people paste into a field: JSON, rows of numbers, or what `print(array)` of NumPy and
// PyTorch shows.

// A sentence for the field that the text came from.
export class BadText extends Error {}

type Numbers = (number | boolean | null | Numbers)[] | number | boolean | null;

const LEFT_OUT =
  'NumPy left numbers out ("..."). Print all of them: numpy.set_printoptions(threshold=sys.maxsize).';
const WORD =
  /^(?:[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf(?:inity)?|[-+]?nan|true|false|none|null)/i;

// Where a name begins the text, what it calls is taken: array(…), tensor(…), np.array(…).
function unwrap(text: string): string {
  const call = /^[A-Za-z_][\w.]*\(\s*(?=\[)/.exec(text);
  if (!call) return text;
  const end = text.lastIndexOf(']');
  return text.slice(call[0].length, end + 1);
}

function wordOf(word: string): number | boolean | null {
  const lower = word.toLowerCase();
  if (lower === 'true' || lower === 'false') return lower === 'true';
  if (lower === 'none' || lower === 'null') return null;
  if (lower.includes('nan')) throw new BadText('"nan" is not a number that attention can be computed of.');
  if (lower.includes('inf')) {
    if (!lower.startsWith('-')) throw new BadText('"inf" has no meaning here; "-inf" hides a key.');
    return null; // as the service writes -infinity
  }
  return Number(word);
}

// The lengths of the axes. Lists of unequal lengths have none.
export function shapeOf(value: unknown): number[] | null {
  if (!Array.isArray(value)) return [];
  const first = value.length ? shapeOf(value[0]) : [];
  if (!first) return null;
  const same = value.every((item) => {
    const shape = shapeOf(item);
    return shape?.length === first.length && shape.every((n, i) => n === first[i]);
  });
  return same ? [value.length, ...first] : null;
}

// Numbers in brackets, apart by blanks or commas. A row without brackets around it is a list.
export function readNumPy(source: string): Numbers {
  const text = unwrap(source.trim());
  if (/\.\.\.|…/.test(text)) throw new BadText(LEFT_OUT);
  const open: Numbers[][] = [[]];
  for (let at = 0; at < text.length; ) {
    const rest = text.slice(at, at + 40);
    const here = rest[0] as string;
    if (/[\s,]/.test(here)) at++;
    else if (here === '[' || here === '(') {
      open.push([]);
      at++;
    } else if (here === ']' || here === ')') {
      const list = open.pop() as Numbers[];
      if (!open.length) throw new BadText('There is a "]" more than there are "[".');
      (open.at(-1) as Numbers[]).push(list);
      at++;
    } else {
      const word = WORD.exec(rest)?.[0];
      if (!word || /^\w/.test(rest.slice(word.length)))
        throw new BadText(
          `Expected JSON, or numbers as NumPy prints them; found "${rest.slice(0, 16).trim()}".`,
        );
      (open.at(-1) as Numbers[]).push(wordOf(word));
      at += word.length;
    }
  }
  if (open.length > 1) throw new BadText('A "]" is missing at the end.');
  const [list = []] = open;
  const value = list.length === 1 && Array.isArray(list[0]) ? list[0] : list;
  if (!shapeOf(value)) throw new BadText('The rows have unequal lengths.');
  return value;
}

// Rows of numbers without brackets: a line is a row, with blanks, tabs or commas between the numbers.
function readLines(text: string, isMatrix: boolean): Numbers {
  if (/\.\.\.|…/.test(text)) throw new BadText(LEFT_OUT);
  const rows: Numbers[][] = [];
  let first = 0; // the line of the first row
  text.split(/\r\n?|\n/).forEach((line, i) => {
    const found = line
      .trim()
      .replace(/[,;]$/, '')
      .split(/\s*[,;]\s*|\s+/);
    if (line.trim() === '') return;
    const row = found.map((word, n) => {
      const where = `Line ${i + 1}, number ${n + 1}`;
      if (WORD.exec(word)?.[0] !== word)
        throw new BadText(
          word
            ? `${where}: expected a number, found "${word.slice(0, 16)}".`
            : `${where} is missing between two commas.`,
        );
      try {
        return wordOf(word);
      } catch (error) {
        throw new BadText(`${where}: ${(error as Error).message}`);
      }
    });
    if (!rows.length) first = i + 1;
    else if (rows[0]?.length !== row.length)
      throw new BadText(
        `Line ${i + 1} has ${row.length} ${row.length === 1 ? 'number' : 'numbers'}, ` +
          `and line ${first} has ${rows[0]?.length}.`,
      );
    rows.push(row);
  });
  return rows.length > 1 || isMatrix ? rows : (rows[0] ?? []);
}

// The value of a field of text. `words` are texts that need no quotes, such as "alibi".
// A matrix may be a single line.
export function readValue(
  source: string,
  isTensor: boolean,
  words: readonly string[],
  isMatrix = false,
): unknown {
  const text = source.trim();
  if (isTensor && !words.includes(text) && !/[[({"]/.test(text) && (isMatrix || text.includes('\n')))
    return readLines(source, isMatrix);
  let why = '';
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    why = (error as Error).message;
  }
  if (words.includes(text)) return text;
  if (isTensor && !text.startsWith('{')) {
    // -Infinity and NaN are what Python's json module writes, so this is read here, too.
    return readNumPy(text);
  }
  if (/^[[{"]/.test(text)) throw new BadText(`This is not JSON: ${why}.`);
  throw new BadText(
    words.length
      ? `Expected JSON, or one of ${words.join(', ')}.`
      : 'Expected JSON, such as [1, 2] or {"kind": "…"}.',
  );
}

// A value as text for its field: a matrix has a line for each row.
export function write(value: unknown): string {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value) || !Array.isArray(value[0])) return JSON.stringify(value);
  const isNested = (item: unknown): item is unknown[] => Array.isArray(item) && Array.isArray(item[0]);
  const lines = (list: unknown[], indent: string): string => {
    const parts = list.map((item) => (isNested(item) ? lines(item, `${indent} `) : JSON.stringify(item)));
    return `[${parts.join(`,\n${indent} `)}]`;
  };
  return lines(value, '');
}

export const times = (shape: readonly number[]): string => (shape.length ? shape.join(' × ') : 'one number');
