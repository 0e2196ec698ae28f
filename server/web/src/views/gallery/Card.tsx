// One example: its picture or numbers, what it shows, its tags and requests.
import { useEffect, useRef, useState } from 'preact/hooks';
import { isDark } from '../../shell/theme';
import { Canvas } from './Canvas';
import { casesOf, example, firstPicture, isRefused, isRun, numbersOf, type Case, type Entry, type Example, type Picture } from './examples';

const ROWS = 7; // of a table of numbers

function Numbers({ of }: { of: Example }) {
  const rows = of.cases.flatMap((c) => numbersOf(c.response ?? c.shapes)).slice(0, ROWS);
  return <table class="gallery-numbers"><tbody>{rows.map(([name, text], i) => <tr key={i}><th scope="row">{name}</th><td>{text}</td></tr>)}</tbody></table>;
}

const doing = (of: Case): string => (isRefused(of) ? `refused, ${of.status}` : isRun(of) ? 'run' : of.accept === 'text/plain' ? 'text' : of.path.replace('/v1/', ''));

export function Card({ entry, tag, choose, open }: { entry: Entry; tag: string; choose: (tag: string) => void; open: (of: Example, one: Case) => void }) {
  const card = useRef<HTMLElement>(null);
  const seen = useRef(false);
  const [near, setNear] = useState(false);
  const [of, setOf] = useState<Example | null>(null);
  const [picture, setPicture] = useState<Picture | null | 'none'>(null);
  const [fault, setFault] = useState('');
  const dark = isDark.value;
  useEffect(() => {
    const watch = new IntersectionObserver(([found]) => {
      seen.current = found?.isIntersecting ?? false;
      if (seen.current) setNear(true);
    }, { rootMargin: '150px' });
    if (card.current) watch.observe(card.current);
    return () => {
      seen.current = false;
      watch.disconnect();
    };
  }, []);
  useEffect(() => {
    if (!near) return undefined;
    let here = true;
    void (async () => {
      try {
        const found = await example(entry, () => seen.current);
        if (here) setOf(found);
        const made = await firstPicture(found, dark, () => seen.current);
        if (here) setPicture(made ?? 'none');
      } catch (error) {
        if (here) setFault((error as Error).message);
      }
    })();
    return () => { here = false; };
  }, [near, dark]);
  const cases = of ? casesOf(of) : [];
  // The pointer may take the picture, too; keys have the title.
  const openFirst = (): void => { if (of && first) open(of, first); };
  const first = picture && picture !== 'none' ? picture.of : cases[0];
  return (
    <article ref={card} class="gallery-card">
      <div class="gallery-picture" aria-busy={!picture && !fault} onClick={openFirst}>
        {fault ? <p class="bad">{fault}</p> : picture === 'none' && of ? <Numbers of={of} /> : picture && picture !== 'none' && <Canvas picture={picture} name={`picture of ${entry.title}`} />}
      </div>
      <div class="gallery-text">
        <h3><button type="button" disabled={!of} onClick={openFirst}>{entry.title}</button></h3>
        <p>{entry.what}</p>
        <p class="gallery-tags">{entry.tags.map((t) => <button type="button" key={t} aria-pressed={t === tag} onClick={() => choose(t === tag ? '' : t)}>{t}</button>)}</p>
        <details>
          <summary>Requests</summary>
          {of ? <ol>{cases.map((one, i) => <li key={i}><button type="button" onClick={() => open(of, one)}>{one.title}</button> <small>{doing(one)}</small></li>)}</ol> : <p>Loading…</p>}
        </details>
      </div>
    </article>
  );
}
