// The keys that work everywhere. Keys that are letters can be switched off (WCAG 2.1.4): then only
// keys with Ctrl and the keys of a focused control work.
import { change, redo, undo } from '../store/history';
import { site } from '../store/run';
import { fold, lettersAreKeys, look } from '../store/state';
import { views } from '../views';
import { dialog } from './dialogs';

export const everywhere: readonly (readonly [string, string])[] = [
  [`1 … ${views.length}`, 'the views in the order of their tabs'],
  ['[ ]', 'the head before, the next head'],
  ['{ }', 'the layer before, the next layer of the same kind'],
  ['Ctrl+Z, Ctrl+Shift+Z', 'undo, redo'],
  ['i', 'hide the pane beside the view, show it'],
  ['s', 'share, copy, export'],
  ['?', 'this list'],
  ['Esc', 'free what is pinned; close a dialog'],
];

export function stepHead(by: number): void {
  const heads = site.value?.num_heads ?? 1;
  const now = look.value.head === 'mean' ? -1 : look.value.head;
  const next = now + by;
  if (next >= -1 && next < heads) change({ head: next < 0 ? 'mean' : next });
}

export function stepLayer(by: number, sites: readonly { kind: string; layer: number }[]): void {
  const at = sites[look.value.site];
  const next = sites.findIndex((s) => at && s.kind === at.kind && s.layer === at.layer + by);
  if (next >= 0) change({ site: next });
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

export function onKey(event: KeyboardEvent, sites: readonly { kind: string; layer: number }[]): void {
  if (event.defaultPrevented || event.altKey) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'z' && !isTyping(event.target)) {
    if (event.shiftKey) redo();
    else undo();
    event.preventDefault();
    return;
  }
  if (event.ctrlKey || event.metaKey || isTyping(event.target)) return;
  if (event.key === 'Escape') {
    if (dialog.value === '') change({ q: -1, k: -1, pins: [] });
    return;
  }
  if (!lettersAreKeys.value || dialog.value !== '') return;
  const view = /^[1-9]$/.test(event.key) ? views[Number(event.key) - 1] : undefined;
  if (view) change({ view: view.id });
  else if (event.key === '[' || event.key === ']') stepHead(event.key === '[' ? -1 : 1);
  else if (event.key === '{' || event.key === '}') stepLayer(event.key === '{' ? -1 : 1, sites);
  else if (event.key === '?') dialog.value = 'help';
  else if (event.key === 'i') fold();
  else if (event.key === 's') dialog.value = 'share';
  else return;
  event.preventDefault();
}
