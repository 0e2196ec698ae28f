// All examples as a row of small cards, beside the first view.
import { useEffect, useRef, useState } from 'preact/hooks';
import { change } from '../../store/history';
import { Canvas, fitOf } from './Canvas';
import { Numbers } from './Card';
import { isRun, list, type Entry } from './examples';
import { useExample } from './useExample';
import { useOpening, type Opening } from './useOpening';

const ROOM = { height: 104, across: 16 }; // of a picture in a card, and the padding beside it
const ROWS = 4; // of a table of numbers

function Small({ entry, open, edit }: { entry: Entry } & Pick<Opening, 'open' | 'edit'>) {
  const card = useRef<HTMLLIElement>(null);
  const { of, picture, first, isComplete, fault, width } = useExample(entry, card);
  const openFirst = (): void => {
    if (of && first) open(of, first);
  };
  return (
    <li ref={card}>
      <div class="gallery-small" aria-busy={!isComplete} onClick={openFirst}>
        {fault ? (
          <p class="bad">{fault}</p>
        ) : picture ? (
          width > 0 && (
            <Canvas
              picture={picture}
              size={fitOf(picture, { width: width - ROOM.across, height: ROOM.height })}
              name={`picture of ${entry.title}`}
            />
          )
        ) : (
          isComplete && of && <Numbers of={of} most={ROWS} />
        )}
      </div>
      <button type="button" class="gallery-title" title={entry.what} disabled={!of} onClick={openFirst}>
        {entry.title}
      </button>
      {first && isRun(first) && (
        <button
          type="button"
          class="gallery-edit"
          aria-label={`edit the request of ${entry.title}`}
          onClick={() => edit(first)}
        >
          Edit the request
        </button>
      )}
    </li>
  );
}

export function Shelf() {
  const [all, setAll] = useState<Entry[]>([]);
  const { open, edit, large } = useOpening();
  useEffect(() => {
    list().then(setAll, () => undefined);
  }, []); // without them the first view is whole, too
  if (!all.length) return null;
  return (
    <section class="gallery-shelf" aria-label="Examples">
      <header>
        <h2>Examples</h2>
        <button type="button" onClick={() => change({ view: 'gallery' })}>
          All {all.length} in the gallery
        </button>
      </header>
      <ul>
        {all.map((entry) => (
          <Small key={entry.id} entry={entry} open={open} edit={edit} />
        ))}
      </ul>
      {large}
    </section>
  );
}
