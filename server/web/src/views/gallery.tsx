// The examples that the service answers itself, as cards with pictures that it draws.
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { make } from '../store/run';
import { bodyOf, isRun, list, type Case as One, type Entry, type Example } from './gallery/examples';
import { Card } from './gallery/Card';
import { Case } from './gallery/Case';
import './gallery.css';

const tag = signal('');
const text = signal('');

function shown(all: readonly Entry[]): Entry[] {
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  return all.filter((entry) => (!tag.value || entry.tags.includes(tag.value))
    && words.every((word) => `${entry.title} ${entry.what} ${entry.tags.join(' ')}`.toLowerCase().includes(word)));
}

// Where a run is seen best: by its words if it has any.
const viewOf = (of: One): string => (bodyOf(of)['labels'] ? 'words' : 'matrix');

// All tags, those of most examples first.
function tagsOf(all: readonly Entry[]): [string, number][] {
  const count = new Map<string, number>();
  for (const entry of all) for (const t of entry.tags) count.set(t, (count.get(t) ?? 0) + 1);
  return [...count].sort(([a, m], [b, n]) => n - m || a.localeCompare(b));
}

export function Component() {
  const [all, setAll] = useState<Entry[] | null>(null);
  const [fault, setFault] = useState('');
  const [opened, setOpened] = useState<{ id: string; of: One } | null>(null);
  useEffect(() => { list().then(setAll, (error: Error) => setFault(error.message)); }, []);
  if (fault) return <p class="trouble bad" role="alert">{fault}</p>;
  const found = shown(all ?? []);
  const larger = (of: Example, one: One): void => setOpened({ id: of.id, of: one });
  const show = (one: One, view = viewOf(one)): void => {
    setOpened(null);
    void make({ path: 'v1/attention', body: bodyOf(one) }, { view });
  };
  const open = (of: Example, one: One): void => (isRun(one) ? show(one) : larger(of, one));
  const edit = (one: One): void => show(one, 'data');
  return (
    <div class="gallery">
      <header class="gallery-head">
        <h2>Examples</h2>
        <label class="hidden" for="gallery-search">Find an example</label>
        <input id="gallery-search" type="search" placeholder="Find an example" value={text.value} onInput={(e) => { text.value = e.currentTarget.value; }} />
        <label>tag <select value={tag.value} onChange={(e) => { tag.value = e.currentTarget.value; }}>
          <option value="">all</option>
          {tagsOf(all ?? []).map(([name, count]) => <option key={name} value={name}>{name} ({count})</option>)}
        </select></label>
        <span aria-live="polite">{all && (found.length === all.length ? `${all.length} examples` : `${found.length} of ${all.length} examples`)}</span>
      </header>
      <div class="gallery-cards">
        {found.map((entry) => <Card key={entry.id} entry={entry} tag={tag.value} choose={(t) => { tag.value = t; }} open={open} edit={edit} larger={larger} />)}
      </div>
      {all && !found.length && <p class="empty">No example fits. <button type="button" onClick={() => { tag.value = ''; text.value = ''; }}>Show all</button></p>}
      {opened && <Case id={opened.id} of={opened.of} close={() => setOpened(null)} show={() => show(opened.of)} edit={() => edit(opened.of)} />}
    </div>
  );
}
