// A weight as text: enough digits to tell apart what the eye can, and none too many.
export function digits(weight: number): string {
  if (!Number.isFinite(weight)) return '–';
  if (weight === 0) return '0';
  const size = Math.abs(weight);
  if (size >= 0.001) return weight.toFixed(size >= 100 ? 1 : 3);
  return weight.toExponential(1).replace('e-', 'e−');
}

// A position or a count where people read it: from 10,000 on with separators.
export const position = (n: number): string => (n >= 10000 ? n.toLocaleString('en') : String(n));

// Four significant digits, three of small numbers; a true minus sign.
export function num(x: number | null | undefined): string {
  if (x === null || x === undefined || Number.isNaN(x)) return '–';
  if (!Number.isFinite(x)) return x > 0 ? '∞' : '−∞';
  if (x === 0) return '0';
  const size = Math.abs(x);
  const text =
    size < 1e-3 || size >= 1e5 ? x.toExponential(2) : String(Number(x.toPrecision(size < 0.01 ? 3 : 4)));
  return text.replace(/-/g, '−');
}
