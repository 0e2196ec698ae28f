// One row of attention, stage by stage: from the products of a query with all keys to its weights
// and its output. The numbers of small requests can be changed.
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Problem } from '../api/client';
import type { Head, Site } from '../api/runs';
import { isCausal } from '../parts/mask';
import { change } from '../store/history';
import { isFinished, keys as keyAxis, make, nameOf, queries, run, site } from '../store/run';
import { announce, head as shownHead, look } from '../store/state';
import {
  cell,
  idle,
  largest,
  outputOf,
  readStages,
  STAGES,
  valueOfKey,
  VALUES_MOST,
  type Cell,
  type Stages,
} from './stages/data';
import { Editor } from './stages/Editor';
import { freshRow } from './stages/fresh';
import { canCopy, copyOf, editable } from './stages/source';
import { still } from './stages/still';
import { Sums as SumsOf } from './stages/Sums';
import { normalizerOf, stageName } from './stages/normalizers';
import { Table as TableOf } from './stages/Table';
import { Output, Products as ProductsOf } from './stages/Values';
import './stages.css';

export const keys: readonly (readonly [string, string])[] = [
  ['arrows', 'the key before, the next key; among numbers the next number'],
  ['Enter', 'among numbers: the one below'],
];

const [Sums, Table, Products] = [still(SumsOf), still(TableOf), still(ProductsOf)];
const ALL = [...STAGES, 'values'] as const;
type Step = (typeof ALL)[number];
const PLAY = 1500; // ms between two stages

const WORDS: Record<Exclude<Step, 'probs'>, string> = {
  raw: 'The query and each key are multiplied number by number, and the products are added.',
  scaled: 'All scores are multiplied by the scale, so that they do not grow with the width.',
  softcapped: 'A softcap would keep the scores between two bounds.',
  biased: 'Biases are added, and the mask hides keys: their scores become −∞.',
  values: 'The output is the sum of the values, each times its weight.',
};
const wordsOf = (stage: Step, of: Site): string => (stage === 'probs' ? normalizerOf(of).says : WORDS[stage]);

// The latest answer of `make`. Until a new answer arrives, the previous one stays.
function useLatest<T>(
  make_: ((stop: AbortSignal) => Promise<T>) | null,
  on: readonly unknown[],
): { value: T | null; why: string } {
  const [state, set] = useState<{ value: T | null; why: string }>({ value: null, why: '' });
  useEffect(() => {
    if (!make_) {
      set({ value: null, why: '' });
      return undefined;
    }
    const stop = new AbortController();
    make_(stop.signal).then(
      (value) => {
        if (!stop.signal.aborted) set({ value, why: '' });
      },
      (error: unknown) => {
        if (!stop.signal.aborted)
          set({ value: null, why: error instanceof Error ? error.message : String(error) });
      },
    );
    return () => stop.abort();
  }, [...on]);
  return state;
}

interface StepsProps {
  of: Site;
  all: readonly Step[]; // the stages that change something in this row
  stage: Step | null; // the last one that is shown; null: all of them, and no steps
  set: (stage: Step | null) => void;
}

function Steps({ of, all, stage, set }: StepsProps) {
  // Another row may have no such step: then the one before it is shown.
  const step = stage && all.filter((one) => ALL.indexOf(one) <= ALL.indexOf(stage)).length - 1;
  const shown = all[step ?? 0] as Step;
  const [playing, setPlaying] = useState(false);
  useEffect(() => {
    if (!playing) return undefined;
    const timer = setTimeout(
      () => {
        const next = step === null ? 0 : step + 1;
        set(all[next] ?? shown);
        if (next >= all.length - 1) setPlaying(false);
      },
      step === null ? 0 : PLAY,
    );
    return () => clearTimeout(timer);
  }, [playing, step]);
  const to = (next: number): void => {
    setPlaying(false);
    const at = all[next] as Step;
    set(at);
    announce(`step ${next + 1} of ${all.length}, ${stageName(at, of)}: ${wordsOf(at, of)}`);
  };
  return (
    <div class="stages-steps" role="group" aria-label="Step through the stages">
      {step === null ? (
        <button type="button" onClick={() => to(0)}>
          Step by step
        </button>
      ) : (
        <>
          <button type="button" disabled={step === 0} onClick={() => to(step - 1)}>
            Previous
          </button>
          <button type="button" disabled={step === all.length - 1} onClick={() => to(step + 1)}>
            Next
          </button>
        </>
      )}
      <button
        type="button"
        aria-pressed={playing}
        onClick={() => {
          if (!playing && step === all.length - 1) set('raw');
          setPlaying(!playing);
        }}
      >
        {playing ? 'Pause' : 'Play'}
      </button>
      {step !== null && (
        <button
          type="button"
          onClick={() => {
            setPlaying(false);
            set(null);
          }}
        >
          Show all
        </button>
      )}
      {step !== null && (
        <p>
          <b>
            {step + 1} of {all.length}, {stageName(shown, of)}
          </b>{' '}
          <span>{wordsOf(shown, of)}</span>
        </p>
      )}
    </div>
  );
}

// What a step explains: the sums of the chosen weight, and at last the output.
const explained = (box: HTMLElement | null, step: Step): Element | null | undefined =>
  step === 'values' ? box?.querySelector('.stages-values') : box?.querySelector('.stages-sums li:last-child');

function Row({ q, count }: { q: number; count: number }) {
  const to = (next: number): void => change({ q: Math.max(0, Math.min(count - 1, next)) });
  return (
    <div class="stages-row">
      <h2>
        Query <bdi>{nameOf(queries.value, q)}</bdi> {queries.value.tokens && <small>{q}</small>}
      </h2>
      <button
        type="button"
        class="icon"
        aria-label="the query before"
        disabled={q === 0}
        onClick={() => to(q - 1)}
      >
        ‹
      </button>
      <label>
        <span class="hidden">query</span>
        <input
          type="number"
          min={0}
          max={count - 1}
          value={q}
          onChange={(e) => {
            if (Number.isInteger(e.currentTarget.valueAsNumber)) to(e.currentTarget.valueAsNumber);
          }}
        />
      </label>
      <button
        type="button"
        class="icon"
        aria-label="the next query"
        disabled={q === count - 1}
        onClick={() => to(q + 1)}
      >
        ›
      </button>
      <span class="hint">0 to {count - 1}</span>
    </div>
  );
}

function Copy({ head }: { head: Head & { head: number } }) {
  const [busy, setBusy] = useState(false);
  const at = site.value;
  if (!at || !canCopy(at)) return null;
  const copy = async (): Promise<void> => {
    setBusy(true);
    try {
      const { q, k } = look.value;
      const source = await copyOf(head, at, { query: queries.value.tokens, key: keyAxis.value.tokens });
      await make(source, { keep: false, view: 'stages', at: { q, k, site: 0, head: 0 } });
    } catch (error) {
      announce(error instanceof Problem ? error.message : String(error));
    }
    setBusy(false);
  };
  return (
    <section class="stages-copy">
      <button
        type="button"
        disabled={busy}
        onClick={() => {
          void copy();
        }}
      >
        {busy ? 'Reading the numbers…' : 'Edit these numbers'}
      </button>
      <p class="hint">
        This makes a request of this head alone: its {at.num_queries} queries and {at.num_keys} keys of{' '}
        {at.width} numbers. You can then change each of them.
      </p>
    </section>
  );
}

function OneHead({ heads }: { heads: number }) {
  return (
    <p class="stages-note">
      <label>
        Stages are of one head. Shown:{' '}
        <select value={0} onChange={(e) => change({ head: Number(e.currentTarget.value) })}>
          {Array.from({ length: heads }, (_, i) => (
            <option key={i} value={i}>
              head {i}
            </option>
          ))}
        </select>
      </label>
      <span>The mean of the heads is of their weights alone; it has no scores.</span>
    </p>
  );
}

export function Component() {
  return isFinished.value ? (
    <p class="hint">
      There are no stages of finished weights: the run was made of {run.value?.model}, which say nothing of
      the queries and keys that made them.
    </p>
  ) : (
    <View />
  );
}

function View() {
  const at = site.value;
  const [step, setStep] = useState<Step | null>(null);
  const { source } = look.value;
  const { run, site: s, batch, head: h } = shownHead.value;
  const count = at?.num_queries ?? 0;
  // Of a causal run the last query sees most; of others the first one is as good as any.
  const usual = at && isCausal(at.mask) ? count - 1 : 0;
  const q = look.value.q >= 0 && look.value.q < count ? look.value.q : usual;
  const head = { run, site: s, batch, head: h === 'mean' ? 0 : h };
  const on = [run, s, batch, head.head, q] as const;
  const fresh = useMemo(() => (run && at && count > 0 ? freshRow(head, at, q) : null), [...on, at]);
  const stages = useLatest<Stages>(
    run && at && count > 0 && !fresh ? (stop) => readStages(head, q, stop) : null,
    [...on, fresh === null],
  );
  const last = useRef<Stages | null>(null);
  const of = fresh?.stages ?? stages.value ?? (stages.why ? null : last.current);
  last.current = of;
  const isLate = !of || of.q !== q || of.head.head !== head.head || of.head.run !== run;
  let k = look.value.k;
  if (of && (k < 0 || k >= of.probs.length)) k = largest(of);
  const chosen = useLatest<Cell>(of && k >= 0 ? () => cell(of.head, of.q, k) : null, [of, k]);
  const own = useMemo(() => editable(source, batch, head.head), [source, batch, head.head]);
  const ownValues = own && ((own.isSelf ? own.grids.query : own.grids.value)?.rows as number[][] | undefined);
  const asked = useLatest(of && !fresh ? (stop) => outputOf(of.head, of.q, stop).catch(() => null) : null, [
    of,
  ]);
  const output = fresh ? fresh.output : asked.value;
  const wants =
    of && !ownValues && k >= 0 && output && (at?.num_keys ?? 0) <= VALUES_MOST && (of.probs[k] as number) > 0;
  const value = useLatest(
    wants ? (stop) => valueOfKey(of.head, of.q, k, of.probs.length, stop).catch(() => null) : null,
    [of, k, Boolean(wants)],
  );
  const isShown = useCallback(
    (stage: Step): boolean => step === null || ALL.indexOf(stage) <= ALL.indexOf(step),
    [step],
  );
  const choose = useCallback((next: number) => change({ q, k: next }), [q]);
  const idleOf = useMemo<Partial<Record<Step, string>>>(() => (of && at ? idle(of, at) : {}), [of, at]);
  const box = useRef<HTMLDivElement>(null);
  const isThere = chosen.value?.col === k && output !== null;
  useEffect(() => {
    if (step) explained(box.current, step)?.scrollIntoView({ block: 'nearest' });
  }, [step, isThere]);
  if (!at) return null;
  return (
    <div class={step ? 'stages stepping' : 'stages'} ref={box}>
      <div class="stages-top">
        <Row q={q} count={count} />
        <Steps of={at} all={ALL.filter((stage) => !idleOf[stage])} stage={step} set={setStep} />
      </div>
      {h === 'mean' && at.num_heads > 1 && <OneHead heads={at.num_heads} />}
      {stages.why && (
        <p class="trouble" role="alert">
          {stages.why}
        </p>
      )}
      {of && (
        <div class={isLate ? 'stages-both stages-late' : 'stages-both'}>
          <Table of={of} site={at} k={k} idle={idleOf} isShown={isShown} choose={choose} />
          {chosen.value && chosen.value.col === k && (
            <Sums
              of={of}
              cell={chosen.value}
              site={at}
              value={ownValues?.[k] ?? value.value}
              idle={idleOf}
              isShown={isShown}
            />
          )}
          {isShown('values') && (
            <section class="stages-values">
              <h2>Times values</h2>
              {ownValues && ownValues.length === of.probs.length ? (
                <Products of={of} values={ownValues} output={output} />
              ) : (
                <Output k={k} weight={of.probs[k] as number} value={value.value} output={output} />
              )}
            </section>
          )}
        </div>
      )}
      {own ? <Editor batch={batch} head={head.head} q={q} k={k} /> : <Copy head={head} />}
    </div>
  );
}
