// Custom elements for other pages, in one module: `<script type="module" src=".../web/attn.js">`.
// The default export is an anywidget.
import { define, type AttnElement } from './element';
import type { Weights } from './source';
import { AttnHeads } from './heads';
import { AttnHeatmap } from './heatmap';
import { AttnWords } from './words';

define('attn-words', AttnWords);
define('attn-heatmap', AttnHeatmap);
define('attn-heads', AttnHeads);

export type { Fault, Head, Selection } from './element';
export type { Flat, Weights } from './source';
export { AttnHeads, AttnHeatmap, AttnWords };

// The part of an anywidget's model that is used: traits `kind`, `data` and the attributes of the
// elements, and `selection`, which is written.
interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, call: () => void): void;
  off(event: string, call: () => void): void;
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const kind = String(model.get('kind') ?? 'words');
  const element = document.createElement(
    `attn-${['words', 'heatmap', 'heads'].includes(kind) ? kind : 'words'}`,
  ) as AttnElement;
  const update = (): void => {
    for (const name of AttnHeads.observedAttributes) {
      const value = model.get(name);
      if (value === undefined || value === null || value === '') element.removeAttribute(name);
      else element.setAttribute(name, String(value));
    }
    element.data = (model.get('data') as Weights | null | undefined) ?? null;
  };
  const select = (event: Event): void => {
    model.set('selection', (event as CustomEvent<unknown>).detail);
    model.save_changes();
  };
  update();
  model.on('change', update);
  element.addEventListener('attn-select', select);
  element.addEventListener('attn-head', select);
  el.append(element);
  return () => {
    model.off('change', update);
    element.remove();
  };
}

export default { render };
