// One example: its picture or numbers, what it shows, its tags and requests.
import type { ComponentChild } from 'preact';
import { useRef } from 'preact/hooks';
import { Canvas, fitOf } from './Canvas';
import { casesOf, isRefused, isRun, numbersOf, type Case, type Entry, type Example } from './examples';
import { useExample } from './useExample';

const ROWS = 7; // of a table of numbers

export function Numbers({ of, most = ROWS }: { of: Example; most?: number }) {
  const rows = of.cases.flatMap((c) => numbersOf(c.response ?? c.shapes)).slice(0, most);
  return (
    <table class="gallery-numbers">
      <tbody>
        {rows.map(([name, text], i) => (
          <tr key={i}>
            <th scope="row">{name}</th>
            <td>{text}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const FULL = 0.95; // of the size of a picture, below which a larger one is offered
const ROOM = { height: 212, across: 20 }; // of a picture in a card, and the padding beside it

const doing = (of: Case): string =>
  isRefused(of)
    ? `refused, ${of.status}`
    : isRun(of)
      ? 'run'
      : of.accept === 'text/plain'
        ? 'text'
        : of.path.replace('/v1/', '');

interface Props {
  entry: Entry;
  tag: string;
  choose: (tag: string) => void;
  open: (of: Example, one: Case) => void; // shows the run, or what is no run
  edit: (one: Case) => void;
  larger: (of: Example, one: Case) => void;
}

export function Card({ entry, tag, choose, open, edit, larger }: Props) {
  const card = useRef<HTMLElement>(null);
  const { of, picture, first, isComplete, fault, width: whole } = useExample(entry, card);
  const width = Math.max(0, whole - ROOM.across);
  const cases = of ? casesOf(of) : [];
  // The pointer may take the picture, too; keys have the title.
  const openFirst = (): void => {
    if (of && first) open(of, first);
  };
  const size = picture ? fitOf(picture, { width, height: ROOM.height }) : 1;
  const inside: ComponentChild = fault ? (
    <p class="bad">{fault}</p>
  ) : picture ? (
    width > 0 && <Canvas picture={picture} size={size} name={`picture of ${entry.title}`} />
  ) : (
    isComplete && of && <Numbers of={of} />
  );
  return (
    <article ref={card} class="gallery-card">
      <div class="gallery-picture" aria-busy={!isComplete} onClick={openFirst}>
        {inside}
      </div>
      <p class="gallery-case">
        <b title={picture?.of.title}>{picture?.of.title}</b>
        {picture && cases.length > 1 && <span> 1 of {cases.length} requests</span>}
      </p>
      <div class="gallery-text">
        <h4>
          <button type="button" disabled={!of} onClick={openFirst}>
            {entry.title}
          </button>
        </h4>
        <p>{entry.what.split('`').map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part))}</p>
        <p class="gallery-tags">
          {entry.tags.map((t) => (
            <button type="button" key={t} aria-pressed={t === tag} onClick={() => choose(t === tag ? '' : t)}>
              {t}
            </button>
          ))}
        </p>
        <p class="gallery-does">
          {!of || !first ? (
            <button type="button" disabled>
              Loading…
            </button>
          ) : isRun(first) ? (
            <button
              type="button"
              aria-label={`edit the request of ${entry.title}`}
              onClick={() => edit(first)}
            >
              Edit the request
            </button>
          ) : (
            <button
              type="button"
              aria-label={`request and answer of ${entry.title}`}
              onClick={() => larger(of, first)}
            >
              Request and answer
            </button>
          )}
          {of && first && picture && size < FULL && (
            <button
              type="button"
              aria-label={`larger picture of ${entry.title}`}
              onClick={() => larger(of, first)}
            >
              Larger picture
            </button>
          )}
        </p>
        <details>
          <summary>Requests</summary>
          {of ? (
            <ol>
              {cases.map((one, i) => (
                <li key={i}>
                  <button type="button" onClick={() => open(of, one)}>
                    {one.title}
                  </button>{' '}
                  <small>{doing(one)}</small>
                  {isRun(one) && (
                    <button
                      type="button"
                      class="gallery-edit"
                      aria-label={`edit ${one.title}`}
                      onClick={() => edit(one)}
                    >
                      edit
                    </button>
                  )}
                </li>
              ))}
            </ol>
          ) : (
            <p>Loading…</p>
          )}
        </details>
      </div>
    </article>
  );
}
