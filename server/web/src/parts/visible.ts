// A token as it is shown: white space that nobody would see has a sign, and so has an empty token.
const signs: Record<string, string> = {
  '\t': '⇥',
  '\n': '↵',
  '\r': '↵',
  '\u00a0': '⍽',
  '\u200b': 'U+200B',
};

export function visible(token: string): string {
  if (!token) return '∅';
  if (!/[\t\n\r\u00a0\u200b]|^ | $| {2}/.test(token)) return token;
  const shown = token.replace(/[\t\n\r\u00a0\u200b]/g, (sign) => signs[sign] ?? sign);
  return shown.replace(/^ +| +$| {2,}/g, (blanks) => '␣'.repeat(blanks.length));
}
