// The examples that the service answers itself, as cards with pictures that it draws.
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { list, type Entry } from './gallery/examples';
import { Card } from './gallery/Card';
import { useOpening } from './gallery/useOpening';
import './gallery.css';

// What of the gallery stands beside other views.
export { Component as Opened } from './gallery/Opened';
export { Shelf } from './gallery/Shelf';

const tag = signal('');
const text = signal('');

function shown(all: readonly Entry[]): Entry[] {
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  return all.filter(
    (entry) =>
      (!tag.value || entry.tags.includes(tag.value)) &&
      words.every((word) =>
        [entry.title, entry.what, ...entry.tags, ...Object.keys(entry.names ?? {})]
          .join(' ')
          .toLowerCase()
          .includes(word),
      ),
  );
}

// Subjects in their order, and the tags that put an example there; the first subject that fits has it. The
// first subject has what is left.
const subjects: readonly (readonly [string, readonly string[]])[] = [
  ['What attention is', []],
  ['Masks', ['masks', 'patterns']],
  ['Positions', ['positions']],
  ['Heads', ['multi-head', 'gqa']],
  ['Batches, caches and cost', ['dry_run', 'cache', 'batch']],
  ['Scores and softmax', ['scores', 'scale', 'normalizer', 'sinks', 'logsumexp']],
];
const subjectOf = ({ tags }: Entry): string =>
  (subjects.find(([, of]) => of.some((t) => tags.includes(t))) ?? subjects[0])?.[0] ?? '';

// All tags, those of most examples first.
function tagsOf(all: readonly Entry[]): [string, number][] {
  const count = new Map<string, number>();
  for (const entry of all) for (const t of entry.tags) count.set(t, (count.get(t) ?? 0) + 1);
  return [...count].sort(([a, m], [b, n]) => n - m || a.localeCompare(b));
}

export function Component() {
  const [all, setAll] = useState<Entry[] | null>(null);
  const [fault, setFault] = useState('');
  const { open, edit, larger, large } = useOpening();
  useEffect(() => {
    list().then(setAll, (error: Error) => setFault(error.message));
  }, []);
  if (fault)
    return (
      <p class="trouble bad" role="alert">
        {fault}
      </p>
    );
  const found = shown(all ?? []);
  return (
    <div class="gallery">
      <header class="gallery-head">
        <h2>Examples</h2>
        <label class="hidden" for="gallery-search">
          Find an example
        </label>
        <input
          id="gallery-search"
          type="search"
          placeholder="Find an example"
          value={text.value}
          onInput={(e) => {
            text.value = e.currentTarget.value;
          }}
        />
        <label>
          tag{' '}
          <select
            value={tag.value}
            onChange={(e) => {
              tag.value = e.currentTarget.value;
            }}
          >
            <option value="">all</option>
            {tagsOf(all ?? []).map(([name, count]) => (
              <option key={name} value={name}>
                {name} ({count})
              </option>
            ))}
          </select>
        </label>
        <span aria-live="polite">
          {all &&
            (found.length === all.length
              ? `${all.length} examples`
              : `${found.length} of ${all.length} examples`)}
        </span>
      </header>
      {subjects.map(([subject]) => {
        const cards = found.filter((entry) => subjectOf(entry) === subject);
        return (
          cards.length > 0 && (
            <section key={subject} aria-label={subject}>
              <h3 class="gallery-subject">{subject}</h3>
              <div class="gallery-cards">
                {cards.map((entry) => (
                  <Card
                    key={entry.id}
                    entry={entry}
                    tag={tag.value}
                    choose={(t) => {
                      tag.value = t;
                    }}
                    open={open}
                    edit={edit}
                    larger={larger}
                  />
                ))}
              </div>
            </section>
          )
        );
      })}
      {all && !found.length && (
        <p class="empty">
          No example fits.{' '}
          <button
            type="button"
            onClick={() => {
              tag.value = '';
              text.value = '';
            }}
          >
            Show all
          </button>
        </p>
      )}
      {large}
    </div>
  );
}
