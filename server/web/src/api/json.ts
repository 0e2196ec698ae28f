// JSON for people: as JSON.stringify indents it, but lists of plain values stay on one line.
export function pretty(value: unknown, width = 100, indent = ''): string {
  const line = JSON.stringify(value) ?? 'null';
  if (typeof value !== 'object' || value === null) return line;
  const items = Array.isArray(value);
  const flat = items && value.every((item) => typeof item !== 'object' || item === null);
  if (indent.length + line.length <= width || (flat && line.length <= 4 * width)) return spaced(value);
  const inner = `${indent}  `;
  const parts = items
    ? value.map((item: unknown) => pretty(item, width, inner))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pretty(item, width, inner)}`);
  const [open, close] = items ? ['[', ']'] : ['{', '}'];
  return `${open}\n${parts.map((part) => inner + part).join(',\n')}\n${indent}${close}`;
}

function spaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spaced).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  return `{${Object.entries(value)
    .map(([name, item]) => `${JSON.stringify(name)}: ${spaced(item)}`)
    .join(', ')}}`;
}
