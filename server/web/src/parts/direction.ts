// Which way a text runs: that of its first letter which has a way. Names in <bdi> do not count for
// dir="auto", so lists of them need this.
const RIGHT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

export function directionOf(names: readonly string[]): 'ltr' | 'rtl' {
  for (const name of names) {
    const letter = /\p{L}/u.exec(name.replace(/<[^>]*>|\[[^\]]*\]/g, ''))?.[0];
    if (letter) return RIGHT.test(letter) ? 'rtl' : 'ltr';
  }
  return 'ltr';
}
