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
