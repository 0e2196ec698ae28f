// The types of attn.js: custom elements that show attention. src/elements/declared.ts compares them
// with the code.

/** Numbers, all rows one after another. */
export type Flat = Float32Array | Float64Array | readonly number[];

/** Weights that a page has itself, of one head. */
export interface Weights {
  /** Nested lists [queries][keys], in which null is a hidden key; or all rows one after another. */
  weights: readonly (readonly (number | null)[])[] | Flat;
  /** The words of the rows. Nested weights need none. */
  queries?: readonly string[];
  /** The words of the columns. Nested weights need none. */
  keys?: readonly string[];
  /** Keys [from, to) of a row that a mask hides. */
  hidden?: readonly (readonly [row: number, from: number, to: number])[];
}

/** The detail of `attn-select` and `attn-hover`. A row or col of -1: none. A weight of null: the mask hides it, or there is no cell. */
export interface Selection {
  row: number;
  col: number;
  weight: number | null;
}

/** The detail of `attn-head`: attributes with which the other elements show this head. `batch` counts the entries of all layers. */
export interface Head {
  site: number;
  batch: number;
  head: number;
}

/** The detail of `attn-error`: why an element shows no numbers. */
export interface Fault {
  message: string;
}

/** The attributes of the elements, as HTML has them: texts. */
export interface Attributes {
  /** The address of the service; that of attn.js if absent. */
  src?: string;
  /** The id of a stored run. */
  run?: string;
  /** The number of its site; 0 if absent, and all of them in `<attn-heads>`. */
  site?: string | number;
  batch?: string | number;
  /** A number, or `mean`, which it is if absent. */
  head?: string | number;
  /** The `read_token` of the run. */
  token?: string;
  colormap?: 'Blues' | 'viridis' | 'cividis' | 'RdBu';
  /** `linear` if absent. */
  transform?: 'linear' | 'sqrt' | 'log';
  /** That of the system if absent. */
  theme?: 'light' | 'dark';
  /** `apart`: `<attn-words>` joins no pieces of words, nor bytes to characters. */
  pieces?: 'apart';
  /** `<attn-heatmap>`: the plain wheel zooms. */
  zooms?: '' | boolean;
}

declare abstract class AttnElement extends HTMLElement {
  /** Weights to show, without the service; null: those of the attributes. */
  data: Weights | null;
}

/** `<attn-words>`: two columns of words and the lines between them. */
export class AttnWords extends AttnElement {}
/** `<attn-heatmap>`: one head as a map. */
export class AttnHeatmap extends AttnElement {}
/** `<attn-heads>`: a thumbnail of each head of a run. */
export class AttnHeads extends AttnElement {}

/** The part of an anywidget's model that is used. */
export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, call: () => void): void;
  off(event: string, call: () => void): void;
}

/** An anywidget. `render` returns what ends it. */
declare const widget: { render(context: { model: Model; el: HTMLElement }): () => void };
export default widget;
// biome-ignore lint/complexity/noUselessEmptyExport: what is not exported by name is not there at run time
export {};

declare global {
  interface HTMLElementTagNameMap {
    'attn-words': AttnWords;
    'attn-heatmap': AttnHeatmap;
    'attn-heads': AttnHeads;
  }
  interface HTMLElementEventMap {
    'attn-select': CustomEvent<Selection>;
    'attn-hover': CustomEvent<Selection>;
    'attn-head': CustomEvent<Head>;
    'attn-error': CustomEvent<Fault>;
  }
  interface DocumentEventMap {
    'attn-select': CustomEvent<Selection>;
    'attn-hover': CustomEvent<Selection>;
    'attn-head': CustomEvent<Head>;
    'attn-error': CustomEvent<Fault>;
  }
}
