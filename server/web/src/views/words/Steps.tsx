// The steps of a model that writes or translates: a slider goes through them, and each shows which tokens
// the model might have chosen, with their probabilities.
import { computed } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { askJson } from '../../api/client';
import { visible } from '../../parts/visible';
import { ALTERNATIVES } from '../../shell/sentence';
import { change } from '../../store/history';
import { run, site, type Answer } from '../../store/run';
import { hover, look, shown, type Source } from '../../store/state';
import { chosen, writing, type Step } from '../../store/writing';

const steps = computed((): readonly Step[] =>
  chosen.value && chosen.value.run === run.value?.id ? chosen.value.steps : [],
);

// The query of the first step: the row of a token is that in which the model chose it. -1: the site has no
// such rows, or the text still grows.
const first = computed(() => {
  const [at, s] = [run.value, site.value];
  const text = at?.texts.at(-1);
  if (!at || !s || !text || writing.value || s.query_text !== at.texts.length - 1) return -1;
  return text.tokens.length - steps.value.length - Number(s.query_start);
});

const shareOf = (p: number): string => (p < 1e-3 ? '< 0.1\u00a0%' : `${(100 * p).toFixed(1)}\u00a0%`);

const rowOf = (step: number): number => (first.value < 0 ? -1 : first.value + step);

// A run that was opened by its address has no answer with alternatives, so the model is asked again.
async function askAgain(id: string, { path, body }: Source): Promise<void> {
  const json = { ...body, return: [], num_alternatives: ALTERNATIVES };
  delete (json as Source['body']).stream;
  const answer = await askJson<Answer>(path, { json });
  const found = answer.sequences?.[0]?.steps;
  if (found && run.peek()?.id === id) chosen.value = { run: id, steps: found };
}

// The step that is shown: that of the row, or the newest while the model writes, else the last. `isChosen`:
// its row is shown, or it has just come.
const now = computed(() => {
  const count = steps.value.length;
  const at = shown.value.q - first.value;
  const isRow = first.value >= 0 && shown.value.q >= 0 && at >= 0 && at < count;
  const step = isRow ? at : count - 1;
  return { step, count, of: steps.value[step], isChosen: isRow || writing.value !== null };
});

export function Alternatives() {
  const { of, isChosen } = now.value;
  if (!of || !isChosen) return null;
  return (
    <ol class="words-alternatives" aria-label="what the model might have chosen">
      {of.alternatives.map(({ token, id, probability }) => (
        <li key={id} aria-current={id === of.id ? 'true' : undefined}>
          <bdi>{visible(token.replace(/^[Ġ▁](?=.)/, ''))}</bdi>{' '}
          <i style={{ width: `${Math.ceil(40 * (probability ?? 0))}px` }} /> {shareOf(probability ?? 0)}
        </li>
      ))}
    </ol>
  );
}

export function Slider() {
  const { source } = look.value;
  const id = run.value?.state === 'closed' ? run.value.id : '';
  const generates = source?.path.endsWith('/generate') ?? false;
  useEffect(() => {
    if (id && source && generates && chosen.peek()?.run !== id && !writing.peek())
      askAgain(id, source).catch(() => undefined); // the run is whole without them
  }, [id]);
  const { step, count, of } = now.value;
  if (!generates || !of) return null;
  return (
    <label class="words-steps">
      step
      <input
        type="range"
        min="0"
        max={count - 1}
        value={step}
        disabled={first.value < 0}
        aria-valuetext={`${step + 1} of ${count}: ${of.token}`}
        onInput={(e) => {
          hover.value = { q: rowOf(Number(e.currentTarget.value)), k: -1 };
        }}
        onChange={(e) => {
          change({ q: rowOf(Number(e.currentTarget.value)), k: -1 });
          hover.value = { q: -1, k: -1 };
        }}
      />
      <output>
        {step + 1} of {count}
      </output>
    </label>
  );
}
