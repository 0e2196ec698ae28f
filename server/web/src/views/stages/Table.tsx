// The stages of a row as a table: a column for each key while they fit, else a line for each key.
import { num } from '../../parts/digits';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { tint } from '../../parts/tint';
import { keys, nameOf } from '../../store/run';
import type { Site } from '../../api/runs';
import { hiddenBy, isHidden, order, STAGES, type Stage, type Stages } from './data';
import { stageName } from './normalizers';

const ABREAST = 16; // keys that may stand side by side
const COLUMN = 70; // px
const WIDEST = 130; // px of a column
const HEADER = 150;
const MANY = 200; // keys beyond which the largest come first
const FIRST = 50;
const LINE = 30; // px of a line of the list
const WINDOW = 440;

interface Props {
  of: Stages;
  site: Site;
  k: number;
  idle: Partial<Record<Stage, string>>;
  isShown: (stage: Stage) => boolean;
  choose: (k: number) => void;
}

function Cause({ of, k }: { of: Stages; k: number }) {
  const [words, setWords] = useState<string[] | null>(null);
  const { run, site, batch, head } = of.head;
  useEffect(() => {
    let here = true;
    const timer = setTimeout(() => {
      hiddenBy(of.head, of.q, k).then(
        (found) => {
          if (here) setWords(found);
        },
        () => undefined,
      );
    }, 150);
    return () => {
      here = false;
      clearTimeout(timer);
    };
  }, [run, site, batch, head, of.q, k]);
  return (
    <span class="stages-cause">{words === null ? '…' : words.length ? words.join(', ') : 'the mask'}</span>
  );
}

// Stages of scores on the way from the scale to the weights have one range, so that equal scores have
// equal colours. The products before the scale have a size of their own.
const SCORES: readonly Stage[] = ['scaled', 'softcapped', 'biased'];

function mostOf(of: Stages, stage: Stage): number {
  let most = 1e-300;
  for (const one of SCORES.includes(stage) ? SCORES : [stage])
    for (const x of of[one]) if (Number.isFinite(x)) most = Math.max(most, Math.abs(x));
  return most;
}

function Number_({
  of,
  stage,
  k,
  most,
  isShown,
}: {
  of: Stages;
  stage: Stage;
  k: number;
  most: number;
  isShown: boolean;
}) {
  const value = of[stage][k] as number;
  if ((stage === 'biased' || stage === 'probs') && isHidden(of, k))
    return (
      <td class="stages-hidden" data-stage={stage} data-key={k} data-value={value}>
        <span style={{ visibility: isShown ? 'visible' : 'hidden' }}>{stage === 'biased' ? '−∞' : '0'}</span>
      </td>
    );
  return (
    <td
      data-stage={stage}
      data-key={k}
      data-value={value}
      class="fade"
      style={isShown ? tint(stage === 'probs' ? 'weights' : 'scores', value, most) : { opacity: '0' }}
      aria-hidden={isShown ? undefined : true}
    >
      {num(value)}
    </td>
  );
}

// Arrow keys move along the buttons of the keys, of which one is reached by Tab.
function rove(event: KeyboardEvent, back: string, on: string, choose: (k: number) => void): void {
  const to = event.key === back ? -1 : event.key === on ? 1 : 0;
  if (!to) return;
  const all = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('button[data-k]')];
  const next = all[all.indexOf(event.target as HTMLElement) + to];
  if (!next) return;
  event.preventDefault();
  next.focus();
  choose(Number(next.dataset.k));
}

const KeyName = ({ k }: { k: number }) => (
  <>
    <bdi>{nameOf(keys.value, k)}</bdi>
    {keys.value.tokens && <small> {k}</small>}
  </>
);

function Abreast({ of, site, k, idle, isShown, choose }: Props) {
  const all = Array.from({ length: of.probs.length }, (_, i) => i);
  const hides = of.hidden.length > 0;
  return (
    <table class="stages-table abreast" style={{ maxWidth: `${HEADER + all.length * WIDEST}px` }}>
      <thead>
        <tr>
          <th scope="col">stage</th>
          {all.map((i) => (
            <th scope="col" key={i} class={i === k ? 'chosen' : ''}>
              <button
                type="button"
                data-k={i}
                tabIndex={i === k ? 0 : -1}
                aria-pressed={i === k}
                onClick={() => choose(i)}
              >
                <KeyName k={i} />
              </button>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {STAGES.map((stage) => {
          const words = idle[stage];
          if (words)
            return (
              <tr key={stage} class="idle" style={{ visibility: isShown(stage) ? 'visible' : 'hidden' }}>
                <th scope="row">{stageName(stage, site)}</th>
                <td colSpan={all.length}>{words}</td>
              </tr>
            );
          const most = mostOf(of, stage);
          return (
            <tr key={stage} data-row={stage}>
              <th scope="row" style={{ visibility: isShown(stage) ? 'visible' : 'hidden' }}>
                {stageName(stage, site)}
              </th>
              {all.map((i) => (
                <Number_ key={i} of={of} stage={stage} k={i} most={most} isShown={isShown(stage)} />
              ))}
            </tr>
          );
        })}
        {hides && isShown('biased') && (
          <tr class="causes">
            <th scope="row">hidden by</th>
            {all.map((i) => (
              <td key={i}>{isHidden(of, i) && <Cause of={of} k={i} />}</td>
            ))}
          </tr>
        )}
      </tbody>
    </table>
  );
}

function Lines({
  of,
  site,
  k,
  idle,
  isShown,
  choose,
  list,
  all,
}: Props & { list: readonly number[]; all: boolean }) {
  const [top, setTop] = useState(0);
  const stages = STAGES.filter((stage) => !idle[stage]);
  const most = Object.fromEntries(stages.map((stage) => [stage, mostOf(of, stage)]));
  const hides = of.hidden.length > 0;
  const from = all ? Math.max(0, Math.floor(top / LINE) - 10) : 0;
  const to = all ? Math.min(list.length, from + Math.ceil(WINDOW / LINE) + 20) : list.length;
  const shown = list.slice(from, to);
  const stop = shown.includes(k) ? k : shown[0];
  return (
    <div
      class={all ? 'stages-window' : 'stages-wide'}
      onScroll={all ? (e) => setTop(e.currentTarget.scrollTop) : undefined}
      onKeyDown={(e) => rove(e, 'ArrowUp', 'ArrowDown', choose)}
    >
      <table class="stages-table lines" aria-rowcount={list.length + 1}>
        <thead>
          <tr>
            <th scope="col">key</th>
            {stages.map((stage) => (
              <th scope="col" key={stage}>
                <span style={{ visibility: isShown(stage) ? 'visible' : 'hidden' }}>
                  {stageName(stage, site)}
                </span>
              </th>
            ))}
            {hides && <th scope="col">hidden by</th>}
          </tr>
        </thead>
        <tbody>
          {from > 0 && <tr aria-hidden="true" style={{ height: `${from * LINE}px` }} />}
          {shown.map((i, n) => (
            <tr key={i} aria-rowindex={from + n + 2} class={i === k ? 'chosen' : ''}>
              <th scope="row">
                <button
                  type="button"
                  data-k={i}
                  tabIndex={i === stop ? 0 : -1}
                  aria-pressed={i === k}
                  onClick={() => choose(i)}
                >
                  <KeyName k={i} />
                </button>
              </th>
              {stages.map((stage) => (
                <Number_
                  key={stage}
                  of={of}
                  stage={stage}
                  k={i}
                  most={most[stage] as number}
                  isShown={isShown(stage)}
                />
              ))}
              {hides && (
                <td class="stages-why">{isShown('biased') && isHidden(of, i) && <Cause of={of} k={i} />}</td>
              )}
            </tr>
          ))}
          {to < list.length && <tr aria-hidden="true" style={{ height: `${(list.length - to) * LINE}px` }} />}
        </tbody>
      </table>
    </div>
  );
}

export function Table(props: Props) {
  const { of, site, idle, isShown } = props;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [all, setAll] = useState(false);
  useEffect(() => {
    if (!box.current) return undefined;
    const watch = new ResizeObserver(([entry]) => {
      if (entry) setWidth(entry.contentRect.width);
    });
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const count = of.probs.length;
  const isAbreast = count <= ABREAST && width >= HEADER + count * COLUMN;
  const isLong = count > MANY;
  const list = useMemo(
    () => (isLong && !all ? order(of, FIRST) : Array.from({ length: count }, (_, i) => i)),
    [of, isLong, all],
  );
  const seen = count - of.hidden.reduce((sum, [from, to]) => sum + to - from, 0);
  const said = STAGES.filter((stage) => idle[stage] && isShown(stage));
  return (
    <div ref={box}>
      {isAbreast ? (
        <div class="stages-wide" onKeyDown={(e) => rove(e, 'ArrowLeft', 'ArrowRight', props.choose)}>
          <Abreast {...props} />
        </div>
      ) : (
        <>
          {said.length > 0 && (
            <p class="stages-idle">
              {said.map((stage) => `${stageName(stage, site)}: ${idle[stage]}`).join('. ')}.
            </p>
          )}
          {isLong && (
            <p class="stages-idle">
              {all
                ? `All ${count} keys in their order`
                : `The ${list.length} keys with the largest weights of the ${seen} that the query sees`}{' '}
              <button type="button" onClick={() => setAll(!all)}>
                {all ? 'Largest first' : `Show all ${count} keys`}
              </button>
            </p>
          )}
          <Lines {...props} all={isLong && all} list={list} />
        </>
      )}
    </div>
  );
}
