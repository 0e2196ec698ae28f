// One example: its picture or numbers, what it shows, its tags and requests.
import type { ComponentChild } from 'preact';
import { useRef } from 'preact/hooks';
import { Canvas, fitOf } from './Canvas';
import { casesOf, isRefused, isRun, numbersOf, type Case, type Entry, type Example } from './examples';
import { useExample } from './useExample';
import { What } from './What';

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
// Of a picture in a card: its height with a caption, the padding beside it, the least width of one of three.
const ROOM = { height: 212, caption: 46, across: 20, least: 130 };

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
  open: (of: Example, at: number) => void; // shows the run of a case, or what is no run
  edit: (of: Example, at: number) => void;
  larger: (of: Example, at: number) => void;
}

export function Card({ entry, tag, choose, open, edit, larger }: Props) {
  const card = useRef<HTMLElement>(null);
  const { of, pictures, first, isComplete, fault, width: whole } = useExample(entry, card);
  const width = Math.max(0, whole - ROOM.across);
  const cases = of ? casesOf(of) : [];
  const one = cases[first];
  const [picture] = pictures;
  const isSmall = pictures.length > 1;
  const seen = pictures.slice(0, width < 3 * ROOM.least ? 2 : 3);
  // The pointer may take the picture, too; keys have the title.
  const openFirst = (): void => {
    if (of) open(of, first);
  };
  const size = picture ? fitOf(picture, { width, height: ROOM.height }) : 1;
  const name = `picture of ${entry.title}`;
  const inside: ComponentChild = fault ? (
    <p class="bad">{fault}</p>
  ) : of && isSmall ? (
    seen.map((each, i) => (
      <figure key={i}>
        <Canvas
          picture={each}
          size={fitOf(each, { width: width / seen.length, height: ROOM.height - ROOM.caption })}
          name={`${name}: ${each.of.title}`}
        />
        <figcaption>
          <button type="button" title={each.of.title} onClick={() => open(of, cases.indexOf(each.of))}>
            {each.of.title}
          </button>
        </figcaption>
      </figure>
    ))
  ) : picture ? (
    width > 0 && <Canvas picture={picture} size={size} name={name} />
  ) : (
    isComplete && of && <Numbers of={of} />
  );
  return (
    <article ref={card} class="gallery-card">
      <div
        class="gallery-picture"
        aria-busy={!isComplete}
        onClick={(e) => {
          if (!(e.target as Element).closest('button')) openFirst();
        }}
      >
        {inside}
      </div>
      <p class="gallery-case">
        <b title={picture?.of.title}>{!isSmall && picture?.of.title}</b>
        {picture && cases.length > 1 && (
          <span>
            {' '}
            {seen.length} of {cases.length} requests
          </span>
        )}
      </p>
      <div class="gallery-text">
        <h4>
          <button type="button" disabled={!of} onClick={openFirst}>
            {entry.title}
          </button>
        </h4>
        <What of={entry.what} />
        <p class="gallery-tags">
          {entry.tags.map((t) => (
            <button type="button" key={t} aria-pressed={t === tag} onClick={() => choose(t === tag ? '' : t)}>
              {t}
            </button>
          ))}
        </p>
        <p class="gallery-does">
          {!of || !one ? (
            <button type="button" disabled>
              Loading…
            </button>
          ) : isRun(one) ? (
            <button
              type="button"
              aria-label={`edit the request of ${entry.title}`}
              onClick={() => edit(of, first)}
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
          {of && picture && (isSmall || size < FULL) && (
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
              {cases.map((each, i) => (
                <li key={i}>
                  <button type="button" onClick={() => open(of, i)}>
                    {each.title}
                  </button>{' '}
                  <small>{doing(each)}</small>
                  {isRun(each) && (
                    <button
                      type="button"
                      class="gallery-edit"
                      aria-label={`edit ${each.title}`}
                      onClick={() => edit(of, i)}
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
