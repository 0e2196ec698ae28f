// Reads what people paste into a field: JSON, rows of numbers, or what `print(array)` of NumPy and
// PyTorch shows.

// A sentence for the field that the text came from.
export class BadText extends Error {}

type Numbers = (number | boolean | null | Numbers)[] | number | boolean | null;

const LEFT_OUT =
  'NumPy left numbers out ("..."). Print all of them: numpy.set_printoptions(threshold=sys.maxsize).';
const WORD =
  /^(?:[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf(?:inity)?|[-+]?nan|true|false|none|null)/i;

const CALL = /[A-Za-z_][\w.]*\s*\(\s*(?=[[(]|[-+.\d]|np\.|array|tensor)/y;
const KEYWORD =
  /,?\s*\b(?:dtype|device|grad_fn|requires_grad|shape|size|layout)=(?:<[^>]*>|'[^']*'|\([^)]*\)|[\w.]+(?:\[[^\]]*\])?)/g;

// What Python prints around numbers: a name in front, comments, arguments, and the true minus sign.
const bare = (text: string): string =>
  text
    .trim()
    .replace(/^Parameter containing:\s*/, '')
    .replace(/^[A-Za-z_]\w*\s*=\s*(?!=)/, '')
    .replace(/^<tf\.Tensor[\s\S]*?numpy=\s*([\s\S]*?)>$/, '$1')
    .replace(/#.*$/gm, '')
    .replace(/\u2212/g, '-')
    .replace(KEYWORD, '')
    .trim();

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
    if (item === value[0]) return true; // it has been looked at
    const shape = shapeOf(item);
    return shape?.length === first.length && shape.every((n, i) => n === first[i]);
  });
  return same ? [value.length, ...first] : null;
}

// Numbers in brackets, apart by blanks or commas. A row without brackets around it is a list.
export function readNumPy(source: string): Numbers {
  const text = bare(source);
  if (/\.\.\.|…/.test(text)) throw new BadText(LEFT_OUT);
  const open: Numbers[][] = [[]];
  const calls: number[] = []; // how deep each call began, whose brackets are none
  for (let at = 0; at < text.length; ) {
    const rest = text.slice(at, at + 40);
    const here = rest[0] as string;
    CALL.lastIndex = at;
    const call = /[A-Za-z]/.test(here) ? CALL.exec(text)?.[0] : undefined;
    if (/[\s,]/.test(here)) at++;
    else if (call) {
      calls.push(open.length);
      at += call.length;
    } else if (here === ')' && calls.at(-1) === open.length) {
      calls.pop();
      at++;
    } else if (here === '[' || here === '(') {
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
  text.split(/\r\n?|\n/).forEach((whole, i) => {
    const line = whole.replace(/#.*$/, '').replace(/\u2212/g, '-');
    if (/\d,\d/.test(line) && /[;\t]|\d +[-+.\d]/.test(line.trim()))
      throw new BadText(`Line ${i + 1} has commas within numbers: write 0.1 for 0,1 and 1000 for 1,000.`);
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

// Words as Python prints a list of them, as NumPy does, one a line, or apart by commas or blanks.
export function readWords(source: string): string[] {
  const text = source.trim();
  if (/^[[(]/.test(text)) {
    const words = [...text.matchAll(/(['"])((?:\\.|(?!\1)[^\\])*)\1/g)].map(([, , word = '']) =>
      word
        .replace(/\\(['"\\])/g, '$1')
        .replace(/\\n/g, '\n')
        .replace(/\\t/g, '\t'),
    );
    if (!words.length)
      throw new BadText("Expected words in quotes between the brackets, such as ['the', 'cat'].");
    return words;
  }
  const apart = /\n/.test(text) ? /\r?\n/ : /,/.test(text) ? /,/ : /\s+/;
  return text.split(apart).map((word) => word.trim());
}

// JSON as Python's json module writes it, too: -Infinity is null, as the service writes it, and so is NaN.
export function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const plain = text.replace(/"(?:[^"\\]|\\.)*"|-Infinity|\bNaN\b/g, (found) =>
      found.startsWith('"') ? found : 'null',
    );
    if (plain === text) throw error;
    return JSON.parse(plain);
  }
}

// A table of numbers, as pandas and spreadsheets write it: a line of names on top and a name in front of
// each line, or numbers alone.
export interface Table {
  rows: number[][];
  query?: string[];
  key?: string[];
}

function cells(line: string, apart: string): string[] {
  const found: string[] = [];
  const cell =
    apart === ' '
      ? /\s*(?:"((?:[^"]|"")*)"|(\S+))/y
      : new RegExp(`\\s*(?:"((?:[^"]|"")*)"|([^${apart}]*?))\\s*(${apart}|$)`, 'y');
  while (cell.lastIndex <= line.length) {
    const match = cell.exec(line);
    if (!match) break;
    found.push(match[1]?.replace(/""/g, '"') ?? match[2] ?? '');
    if (apart !== ' ' && match[3] === '') break;
  }
  return found;
}

export function readTable(text: string): Table {
  const lines = text
    .replace(/^\ufeff/, '')
    .split(/\r\n?|\n/)
    .filter((line) => line.trim() && !line.startsWith('#'));
  const [head = ''] = lines;
  const apart = ['\t', ';', ','].find((mark) => head.includes(mark)) ?? ' ';
  const table = lines.map((line) => cells(line, apart));
  const isNumber = (word: string | undefined): boolean =>
    word !== undefined && WORD.exec(word)?.[0] === word && /\d/.test(word);
  const named = table[0]?.slice(1).some((word) => !isNumber(word)) || table[0]?.[0] === '';
  const body = named ? table.slice(1) : table;
  const inFront =
    body.length > 0 && ((named && table[0]?.[0] === '') || body.every((line) => !isNumber(line[0])));
  const from = inFront ? 1 : 0;
  const rows = body.map((line, i) =>
    line.slice(from).map((word, n) => {
      if (!isNumber(word))
        throw new BadText(
          `Line ${i + (named ? 2 : 1)}, column ${n + from + 1}: expected a number, found "${word.slice(0, 16)}".`,
        );
      return Number(word);
    }),
  );
  if (!rows.length || !shapeOf(rows)) throw new BadText('The lines have unequal numbers of columns.');
  const top = table[0] ?? [];
  const columns = rows[0]?.length ?? 0;
  return {
    rows,
    ...(inFront && { query: body.map((line) => line[0] as string) }),
    ...(named && { key: top.slice(top.length - columns) }),
  };
}

// Whether all rows of a matrix add up to 1 as weights do.
export const sumsToOne = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0
    ? Array.isArray(value[0])
      ? value.every(sumsToOne)
      : value.every((x) => typeof x === 'number' && x >= 0) &&
        Math.abs((value as number[]).reduce((a, b) => a + b, 0) - 1) < 2e-3
    : false;

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
