// Styles that come with code that is loaded on demand; main.css holds those that the first view waits for.
export function adopt(css: string): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}
