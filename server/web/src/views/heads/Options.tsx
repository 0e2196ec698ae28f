// Sorting and filtering of heads by what is measured of them, as soon as it is.
import { useState } from 'preact/hooks';
import {
  colourOf,
  everyHead,
  isFiltered,
  isPlain,
  measureName,
  measureOfSort,
  orders,
  patternsOf,
  wordsOf,
  type Choice,
  type Measured,
} from './data';
import type { Look } from '../../api/long';

function Bound({
  label,
  value,
  off,
  onChange,
}: {
  label: string;
  value: number | null;
  off: boolean;
  onChange: (value: number | null) => void;
}) {
  const [text, setText] = useState(value === null ? '' : String(value));
  const shown = value === null && text.trim() !== '' && Number.isFinite(Number(text)) ? '' : text;
  return (
    <label>
      {label}{' '}
      <input
        class="heads-bound"
        inputMode="decimal"
        value={shown}
        disabled={off}
        aria-invalid={shown.trim() !== '' && !Number.isFinite(Number(shown))}
        onInput={(e) => {
          const next = e.currentTarget.value;
          setText(next);
          onChange(next.trim() !== '' && Number.isFinite(Number(next)) ? Number(next) : null);
        }}
      />
    </label>
  );
}

export function Working({ what, look }: { what: string; look: Look<unknown> }) {
  const { progress, why } = look;
  if (progress)
    return (
      <p class="heads-working" role="status">
        {what}{' '}
        {progress.ahead > 0
          ? `wait for ${progress.ahead} other ${progress.ahead === 1 ? 'look' : 'looks'}`
          : 'are being computed'}
        {progress.job && (
          <>
            <progress max={1} value={progress.share} aria-label={`share of ${what} that is computed`} />{' '}
            {Math.round(100 * progress.share)} %
          </>
        )}
        {progress.job && (
          <button type="button" onClick={look.cancel}>
            Cancel
          </button>
        )}
      </p>
    );
  if (why)
    return (
      <p class="heads-working" role="status">
        {what}: {why}{' '}
        <button type="button" onClick={look.again}>
          Try again
        </button>
      </p>
    );
  return null;
}

interface Props {
  choice: Choice;
  onChange: (choice: Choice) => void;
  look: Look<Measured>;
  left: number;
  all: number;
  onProbes: boolean | null; // whether scores say what heads do, and not this text; null: no model is at hand
  chooseProbes: (on: boolean) => void;
}

const PATTERNS_IN_WORDS = 5; // more patterns than this are named shortly

// A button for each pattern. Pressing it leaves only the heads that follow the pattern. The line of
// buttons keeps its height while the patterns are being computed, and scrolls sideways if there are
// many.
function Patterns({
  choice,
  look,
  all,
  set,
}: {
  choice: Choice;
  look: Look<Measured>;
  all: number;
  set: (patch: Partial<Choice>) => void;
}) {
  if (!look.value) return <Working what="Patterns" look={look} />;
  const found: [string, number][] = [['', all], ...patternsOf(look.value.heads)];
  const short = found.length > PATTERNS_IN_WORDS;
  return (
    <div class="heads-chips" role="group" aria-label="Show">
      {found.map(([name, count]) => (
        <button
          type="button"
          key={name}
          data-pattern={name}
          title={name ? wordsOf(name) : undefined}
          aria-pressed={choice.pattern === name}
          onClick={() => set({ pattern: choice.pattern === name ? '' : name })}
        >
          {name && colourOf(name) >= 0 && <i class="heads-swatch" data-does={colourOf(name)} />}
          {name ? wordsOf(name, short) : 'all heads'} <small>{count}</small>
        </button>
      ))}
    </div>
  );
}

export function Options({ choice, onChange, look, left, all, onProbes, chooseProbes }: Props) {
  const measured = look.value;
  const names = measured
    ? Object.keys(measured.legend).filter((name) =>
        measured.heads.some((h) => typeof h.measures[name] === 'number'),
      )
    : [];
  const set = (patch: Partial<Choice>): void => onChange({ ...choice, ...patch });
  const inWords = orders.filter((o) => names.includes(measureOfSort(o.sort)));
  const isInWords = (sort: string): boolean => inWords.some((o) => o.sort === sort);
  const legend = measured?.legend[choice.measure];
  const off = choice.measure === '';
  return (
    <div class="heads-options" role="group" aria-label="Sort and filter">
      <div class="heads-patterns">
        <Patterns choice={choice} look={look} all={all} set={set} />
        <span class="heads-count">
          <span role="status">
            {all > 0 &&
              (isFiltered(choice) ? `${left} of ${all} heads` : `${all} ${all === 1 ? 'head' : 'heads'}`)}
          </span>
          <button type="button" disabled={isPlain(choice)} onClick={() => onChange(everyHead)}>
            Show all
          </button>
        </span>
      </div>
      <div class="heads-fields">
        {onProbes !== null && (
          <label>
            What they do{' '}
            <select value={String(onProbes)} onChange={(e) => chooseProbes(e.currentTarget.value === 'true')}>
              <option value="false">in this text</option>
              <option value="true">on probes</option>
            </select>
          </label>
        )}
        <label>
          Sort by{' '}
          <select
            value={choice.sort}
            onChange={(e) => {
              const sort = e.currentTarget.value;
              const name = measureOfSort(sort);
              // How sharp heads are is seen only if one colour is one weight in all of them.
              const oneRange = choice.oneRange || name === 'normalized_entropy';
              set({ sort, oneRange, measure: names.includes(name) ? name : choice.measure });
            }}
          >
            <option value="place">layer and head</option>
            {measured && <option value="pattern">what they do</option>}
            <optgroup label="in words">
              {inWords.map((o) => (
                <option key={o.sort} value={o.sort}>
                  {o.says}
                </option>
              ))}
            </optgroup>
            <optgroup label="by a measure">
              {names
                .flatMap((name) => [
                  [`-${name}`, 'largest'],
                  [name, 'smallest'],
                ])
                .filter(([sort = '']) => !isInWords(sort))
                .map(([sort = '', which]) => (
                  <option key={sort} value={sort}>
                    {measureName(measureOfSort(sort))}, {which} first
                  </option>
                ))}
            </optgroup>
          </select>
        </label>
        <label>
          <input
            type="checkbox"
            checked={choice.oneRange}
            onChange={(e) => set({ oneRange: e.currentTarget.checked })}
          />{' '}
          same range for all
        </label>
        <label>
          Measure{' '}
          <select
            value={choice.measure}
            disabled={!measured}
            onChange={(e) => set({ measure: e.currentTarget.value, min: null, max: null })}
          >
            <option value="">none</option>
            {names.map((name) => (
              <option key={name} value={name}>
                {measureName(name)}
              </option>
            ))}
          </select>
        </label>
        <span class="heads-bounds">
          <Bound
            key={`min ${choice.measure}`}
            label="from"
            value={choice.min}
            off={off}
            onChange={(min) => set({ min })}
          />
          <Bound
            key={`max ${choice.measure}`}
            label="to"
            value={choice.max}
            off={off}
            onChange={(max) => set({ max })}
          />
        </span>
        <label class="heads-filter">
          Find{' '}
          <input
            type="search"
            value={choice.text}
            placeholder="pattern or site"
            onInput={(e) => set({ text: e.currentTarget.value })}
          />
        </label>
      </div>
      {legend && (
        <p class="heads-legend">
          <b>{measureName(choice.measure)}</b>: {legend.formula}
          {legend.range && `; ${legend.range}`}
          {legend.paper && ` (${legend.paper})`}
        </p>
      )}
    </div>
  );
}
