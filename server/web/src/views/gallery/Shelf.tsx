// A line of examples beside the first view: each opens by its title.
import { useEffect, useState } from 'preact/hooks';
import { Problem } from '../../api/client';
import { change } from '../../store/history';
import { announce } from '../../store/state';
import { casesOf, example, isDrawable, list, type Entry } from './examples';
import { useOpening } from './useOpening';

const SHOWN = 4;

export function Shelf() {
  const [all, setAll] = useState<Entry[]>([]);
  const { open, large } = useOpening();
  useEffect(() => {
    list().then(setAll, () => undefined);
  }, []); // without them the first view is whole, too
  if (!all.length) return null;
  const show = async (entry: Entry): Promise<void> => {
    try {
      const of = await example(entry, () => true);
      const cases = casesOf(of);
      open(of, Math.max(0, cases.findIndex(isDrawable)));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      announce(error.message);
    }
  };
  return (
    <section class="gallery-shelf" aria-label="Examples">
      <h2>Examples</h2>
      <ul>
        {all.slice(0, SHOWN).map((entry) => (
          <li key={entry.id}>
            <button type="button" class="gallery-title" title={entry.what} onClick={() => void show(entry)}>
              {entry.title}
            </button>
          </li>
        ))}
      </ul>
      <button type="button" onClick={() => change({ view: 'gallery' })}>
        All {all.length}
      </button>
      {large}
    </section>
  );
}
