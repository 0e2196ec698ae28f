// The shell: the bar, the tabs, the view that is chosen, the cell beside it, and the status line.
import { signal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { health } from '../api/client';
import { position } from '../parts/digits';
import { maskInWords } from '../parts/mask';
import { change } from '../store/history';
import { running } from '../store/lesson';
import { growing, run, site, trouble, working } from '../store/run';
import { announcement, fold, head, isFolded, look } from '../store/state';
import { keepRow, words } from '../store/values';
import { views, type Entry, type View } from '../views';
import { Bar } from './Bar';
import { Cell } from './Cell';
import { beginAnew } from './sentence';
import { AskForKey, dialog, Help } from './dialogs';
import { onKey } from './keys';
import { Guard, later } from './later';

const loaded = signal<Record<string, View>>({});
const failed = signal('');

// Loads the code of a view when it is first shown.
function need(entry: Entry): View | undefined {
  const view = loaded.value[entry.id];
  if (!view && failed.value !== entry.id)
    entry.load().then(
      (found) => {
        loaded.value = { ...loaded.value, [entry.id]: found };
      },
      () => {
        failed.value = entry.id;
      },
    );
  return view;
}

const Lesson = later('the lesson', () => import('./lessons/Rail'));
const Opened = later('the example', () =>
  import('../views/gallery').then(({ Opened: Component }) => ({ Component })),
);
const Share = later('the dialog', () => import('./Share'));

// A refusal in one view is not shown in the next view, which shows the run from before.
function open(view: string): void {
  if (head.value.run) trouble.value = null;
  change({ view });
}

function Tabs({ chosen }: { chosen: string }) {
  return (
    <nav class="tabs" aria-label="Views">
      {views.map((entry) => (
        <button
          type="button"
          key={entry.id}
          aria-current={entry.id === chosen ? 'page' : undefined}
          onClick={() => open(entry.id)}
        >
          {entry.title}
        </button>
      ))}
      <a href="docs">Reference</a>
    </nav>
  );
}

function Main({ entry }: { entry: Entry }) {
  const view = need(entry);
  if (failed.value === entry.id)
    return (
      <div class="empty" role="alert">
        <p>The code of this view did not load.</p>
        <button
          type="button"
          onClick={() => {
            failed.value = '';
          }}
        >
          Try again
        </button>
      </div>
    );
  if (entry.needs === 'run' && !site.value)
    return <div class="empty">{trouble.value ? <Trouble /> : <p>Loading…</p>}</div>;
  return (
    <>
      {trouble.value && <Trouble />}
      {look.value.example && (entry.needs === 'run' || entry.id === 'data') && <Opened />}
      {view ? (
        <Guard key={entry.id} name={entry.title} of={view.Component} />
      ) : (
        <div class="empty">
          <p>Loading…</p>
        </div>
      )}
    </>
  );
}

function Trouble() {
  const why = trouble.value;
  if (!why) return null;
  const gone = why.isGone && !run.value;
  return (
    <div class="trouble" role="alert">
      <p>
        {gone
          ? 'This run is not kept any more, and its address does not hold the request that made it.'
          : why.message}
      </p>
      {gone && (
        <button type="button" onClick={() => void beginAnew()}>
          Begin anew
        </button>
      )}
    </div>
  );
}

const counted = (n: number, one: string, many: string): string => `${position(n)} ${n === 1 ? one : many}`;

function Status({ canFold }: { canFold: boolean }) {
  const now = health.value;
  const at = site.value;
  const joined = words.value;
  return (
    <footer class="status">
      {now.state === 'lost' && <span class="bad">The service does not answer. The page tries again.</span>}
      {now.state === 'waiting' && (
        <span class="bad">
          The service is busy: {now.why} It is asked again in {now.seconds} s.
        </span>
      )}
      {at && (
        <span class="shape">
          {joined
            ? `${joined.queries.names.length} × ${joined.keys.names.length} words of ` +
              `${position(at.num_queries)} × ${position(at.num_keys)} pieces`
            : `${counted(at.num_queries, 'query', 'queries')} × ${counted(at.num_keys, 'key', 'keys')}`}
          , {counted(at.num_heads, 'head', 'heads')}; {maskInWords(at.mask, look.value.batch)}
        </span>
      )}
      {growing.value > 0 && (
        <span class="growing">
          growing: {position(growing.value)} {growing.value === 1 ? 'row' : 'rows'}
        </span>
      )}
      {canFold && (
        <button type="button" class="fold" aria-pressed={isFolded.value} title="key i" onClick={fold}>
          {isFolded.value ? 'show the pane' : 'hide the pane'}
        </button>
      )}
      <span class="hidden" aria-live="polite">
        {announcement.value}
      </span>
    </footer>
  );
}

const LARGE = 38; // lines of text that a page must be high for its parts to stand still

// Whether the text is large for the height of the page. Container queries could tell this, but
// Chromium does not evaluate them again when the size of the text changes before the first frame.
function useLarge(): [boolean, RefObject<HTMLSpanElement | null>] {
  const probe = useRef<HTMLSpanElement>(null);
  const [large, setLarge] = useState(false);
  useEffect(() => {
    const watch = new ResizeObserver(() =>
      setLarge(innerHeight < LARGE * parseFloat(getComputedStyle(document.documentElement).fontSize)),
    );
    if (probe.current) watch.observe(probe.current);
    watch.observe(document.body);
    return () => watch.disconnect();
  }, []);
  return [large, probe];
}

// From a view that shows no run one may come to views that do, before there is a run.
function useRun(entry: Entry): void {
  const isFirst = useRef(true); // main.tsx makes the first run
  useEffect(() => {
    const { run: id, source } = look.value;
    if (!isFirst.current && entry.needs === 'run' && !id && !source && !working.value)
      void beginAnew(entry.id);
    isFirst.current = false;
  }, [entry]);
}

export function App() {
  const [large, probe] = useLarge();
  const entry = views.find((v) => v.id === look.value.view) ?? (views[0] as Entry);
  const wide = entry.wide ?? false;
  useRun(entry);
  useEffect(() => {
    keepRow();
    const keys = (event: KeyboardEvent): void => onKey(event, run.value?.sites ?? []);
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  }, []);
  return (
    <div
      class={`app ${wide || isFolded.value ? 'wide' : ''} ${running.value ? 'with-lesson' : ''}`}
      data-text={large ? 'large' : undefined}
    >
      <Bar title={entry.title} />
      <Tabs chosen={entry.id} />
      <aside class="about" aria-label="About this page">
        attnd shows which words a model looks at. Type a sentence, point at a word.
      </aside>
      {running.value && <Lesson />}
      <main aria-label={entry.title}>
        <Main entry={entry} />
      </main>
      {!wide && !isFolded.value && <Cell />}
      <Status canFold={!wide} />
      {dialog.value === 'help' && <Help keys={loaded.value[entry.id]?.keys ?? []} />}
      {dialog.value === 'share' && <Share />}
      <AskForKey />
      <span ref={probe} class="probe" aria-hidden="true" />
    </div>
  );
}
