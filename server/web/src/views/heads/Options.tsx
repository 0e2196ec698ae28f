// Sorting and filtering of heads by what is measured of them, as soon as it is.
import { useState } from 'preact/hooks';
import { everyHead, isPlain, measureName, type Choice, type Measured } from './data';
import type { Look } from '../../api/long';

function Bound({ label, value, onChange }: { label: string; value: number | null; onChange: (value: number | null) => void }) {
  const [text, setText] = useState(value === null ? '' : String(value));
  const shown = value === null && text.trim() !== '' && Number.isFinite(Number(text)) ? '' : text;
  return (
    <label>{label} <input class="heads-bound" inputMode="decimal" value={shown}
      aria-invalid={shown.trim() !== '' && !Number.isFinite(Number(shown))}
      onInput={(e) => {
        const next = e.currentTarget.value;
        setText(next);
        onChange(next.trim() !== '' && Number.isFinite(Number(next)) ? Number(next) : null);
      }} /></label>
  );
}

export function Working({ what, look }: { what: string; look: Look<unknown> }) {
  const { progress, why } = look;
  if (progress)
    return (
      <p class="heads-working" role="status">
        {what} {progress.ahead > 0 ? `wait for ${progress.ahead} other ${progress.ahead === 1 ? 'look' : 'looks'}` : 'are being computed'}
        {progress.job && <><progress max={1} value={progress.share} aria-label={`share of ${what} that is computed`} /> {Math.round(100 * progress.share)} %</>}
        {progress.job && <button type="button" onClick={look.cancel}>Cancel</button>}
      </p>
    );
  if (why) return <p class="heads-working" role="status">{what}: {why} <button type="button" onClick={look.again}>Try again</button></p>;
  return null;
}

interface Props {
  choice: Choice;
  onChange: (choice: Choice) => void;
  look: Look<Measured>;
  left: number;
  all: number;
}

export function Options({ choice, onChange, look, left, all }: Props) {
  const measured = look.value;
  const names = measured ? Object.keys(measured.legend).filter((name) => measured.heads.some((h) => typeof h.measures[name] === 'number')) : [];
  const set = (patch: Partial<Choice>): void => onChange({ ...choice, ...patch });
  const legend = measured?.legend[choice.measure];
  return (
    <div class="heads-options" role="group" aria-label="Sort and filter">
      <label>Sort by <select value={choice.sort} onChange={(e) => {
        const sort = e.currentTarget.value;
        const name = sort.replace(/^-/, '');
        set({ sort, measure: names.includes(name) ? name : choice.measure });
      }}>
        <option value="place">layer and head</option>
        {measured && <option value="pattern">pattern</option>}
        {names.flatMap((name) => [
          <option key={`-${name}`} value={`-${name}`}>{measureName(name)}, largest first</option>,
          <option key={name} value={name}>{measureName(name)}, smallest first</option>,
        ])}
      </select></label>
      <label>Measure <select value={choice.measure} disabled={!measured} onChange={(e) => set({ measure: e.currentTarget.value, min: null, max: null })}>
        <option value="">{measured ? 'none' : '…'}</option>
        {names.map((name) => <option key={name} value={name}>{measureName(name)}</option>)}
      </select></label>
      {choice.measure !== '' && <Bound key={`min ${choice.measure}`} label="from" value={choice.min} onChange={(min) => set({ min })} />}
      {choice.measure !== '' && <Bound key={`max ${choice.measure}`} label="to" value={choice.max} onChange={(max) => set({ max })} />}
      <label class="heads-filter">Filter <input type="search" value={choice.text} placeholder="pattern or site" onInput={(e) => set({ text: e.currentTarget.value })} /></label>
      {!isPlain(choice) && <span class="heads-count" role="status">{left} of {all} heads <button type="button" onClick={() => onChange(everyHead)}>Show all</button></span>}
      <Working what="Measures" look={look} />
      {legend && <p class="heads-legend"><b>{measureName(choice.measure)}</b>: {legend.formula}{legend.range && `; ${legend.range}`}{legend.paper && ` (${legend.paper})`}</p>}
    </div>
  );
}
