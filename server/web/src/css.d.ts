// Style sheets: bundled by the page, and texts for the elements (build.mjs).
declare module '*.css' {
  const text: string;
  export default text;
}
