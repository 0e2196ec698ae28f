// The form of all fields of POST /v1/attention. What most requests have stands first, all else in
// groups that open.
import { computed, signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { pretty } from '../../api/json';
import { trouble as refusal, working } from '../../store/run';
import { look } from '../../store/state';
import { fields, groups, load, trouble, type Field, type Group } from './fields';
import {
  answer,
  compute,
  computing,
  contents,
  faults,
  faultyField,
  fill,
  follow,
  said,
  setContent,
} from './state';
import { times } from './numbers';

const first = ['query', 'key', 'value', 'attn_mask', 'is_causal', 'labels'];
const titles: Record<Group, string> = {
  tensors: 'Tensors',
  masks: 'Masks',
  scores: 'Scores',
  output: 'Output',
};
const hints: Record<string, string> = {
  query: '1 0 0\n0 1 0\nor [[1, 0, 0], [0, 1, 0]],\nor what print(array) shows',
  key: 'empty: the query',
  value: 'empty: the query if there is no key, else no output',
  attn_mask: '[[true, false], [true, true]]',
  labels: '["the", "cat", "sat"]',
};

export const samples: readonly (readonly [string, Record<string, unknown>])[] = [
  [
    'identity',
    {
      query: [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
      ],
      scale: 3,
    },
  ],
  [
    'causal, 4 words',
    {
      query: { shape: [4, 8], random: 'normal', seed: 7 },
      is_causal: true,
      labels: ['the', 'cat', 'sat', 'down'],
    },
  ],
  [
    'random 8 heads × 64',
    {
      query: { shape: [1, 8, 64, 32], random: 'normal', seed: 1 },
      key: { shape: [1, 8, 64, 32], random: 'normal', seed: 2 },
      value: { shape: [1, 8, 64, 32], random: 'normal', seed: 3 },
      is_causal: true,
    },
  ],
];

const sought = signal('');

// What the service or the form says of a field.
function faultOf(name: string): string {
  return faults.value[name] ?? (faultyField() === name ? (refusal.value?.message ?? '') : '');
}

// Fields of a request that the service does not have: they are kept, so that its error names them.
const unknown = computed<Field[]>(() =>
  Object.keys(contents.value)
    .filter((name) => fields.value.length > 0 && !fields.value.some((f) => f.name === name))
    .map((name) => ({
      name,
      description: 'The service has no field of this name.',
      kind: 'json',
      group: 'output',
      choices: [],
      whole: false,
      min: undefined,
      max: undefined,
      usual: false,
    })),
);

function Control({ field, id, about }: { field: Field; id: string; about: string }) {
  const { name, kind } = field;
  const content = contents.value[name];
  const fault = faultOf(name);
  const common = { id, 'aria-describedby': about, 'aria-invalid': fault ? true : undefined };
  if (content && !('text' in content)) {
    const what =
      'part' in content
        ? `${content.part.dtype}, ${times(content.part.shape)}: ${content.part.name} of ${content.part.file}`
        : content.what;
    return (
      <span class="data-held">
        <span>{what}</span>
        <button type="button" id={id} aria-label={`take out ${name}`} onClick={() => setContent(name, null)}>
          take out
        </button>
      </span>
    );
  }
  const text = content?.text ?? '';
  const set = (value: string): void => setContent(name, value === '' ? null : { text: value });
  if (kind === 'flag')
    return (
      <input
        {...common}
        type="checkbox"
        checked={text === '' ? field.usual : text === 'true'}
        onChange={(e) => set(e.currentTarget.checked === field.usual ? '' : String(e.currentTarget.checked))}
      />
    );
  if (kind === 'choice')
    return (
      <select {...common} value={text} onChange={(e) => set(e.currentTarget.value)}>
        <option value="">not set</option>
        {field.choices.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
        {text !== '' && !field.choices.includes(text) && <option>{text}</option>}
      </select>
    );
  if (kind === 'number')
    return (
      <input
        {...common}
        type="number"
        inputMode={field.whole ? 'numeric' : 'decimal'}
        step={field.whole ? 1 : 'any'}
        min={field.min}
        max={field.max}
        value={text}
        onInput={(e) => set(e.currentTarget.value)}
      />
    );
  const rows = first.indexOf(name) >= 0 && first.indexOf(name) < 4 ? 4 : Math.min(6, text.split('\n').length);
  return (
    <textarea
      {...common}
      rows={rows}
      spellcheck={false}
      autocomplete="off"
      placeholder={hints[name]}
      value={text}
      onInput={(e) => set(e.currentTarget.value)}
    />
  );
}

function Row({ field }: { field: Field }) {
  const { name, kind, description, choices } = field;
  const id = `data-${name}`;
  const fault = faultOf(name);
  const set = name in contents.value;
  return (
    <div class={`data-field data-${kind} ${fault ? 'data-faulty' : ''}`}>
      <label for={id}>
        <code>{name}</code>
        {set && <small> set</small>}
      </label>
      <Control field={field} id={id} about={`${id}-about`} />
      <p id={`${id}-about`}>
        {fault && <strong class="bad">{fault} </strong>}
        <span>{description}</span>
        {kind === 'json' && choices.length > 0 && choices.length <= 8 && (
          <small> Names: {choices.join(', ')}.</small>
        )}
      </p>
    </div>
  );
}

function Section({ group, open }: { group: Group; open: boolean }) {
  const mine = [...fields.value, ...unknown.value].filter(
    (f) => f.group === group && !first.includes(f.name) && f.name !== 'store',
  );
  const set = mine.filter((f) => f.name in contents.value).map((f) => f.name);
  const faulty = mine.some((f) => faultOf(f.name));
  return (
    <details class="data-group" open={open || faulty}>
      <summary>
        {titles[group]} <small>{set.length ? set.join(', ') : `${mine.length} fields`}</small>
      </summary>
      <div class="data-fields">
        {mine.map((field) => (
          <Row key={field.name} field={field} />
        ))}
      </div>
    </details>
  );
}

function All() {
  const words = sought.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length)
    return (
      <>
        <div class="data-fields data-first">
          {first
            .map((name) => fields.value.find((f) => f.name === name))
            .map((field) => field && <Row key={field.name} field={field} />)}
        </div>
        {groups.map((group) => (
          <Section key={group} group={group} open={false} />
        ))}
      </>
    );
  const found = [...fields.value, ...unknown.value].filter(
    (f) =>
      f.name !== 'store' && words.every((word) => `${f.name} ${f.description}`.toLowerCase().includes(word)),
  );
  found.sort((a, b) => Number(b.name.includes(words[0] ?? '')) - Number(a.name.includes(words[0] ?? '')));
  return (
    <>
      <p class="data-found" aria-live="polite">
        {found.length === 1 ? '1 field' : `${found.length} fields`}
      </p>
      <div class="data-fields">
        {found.map((field) => (
          <Row key={field.name} field={field} />
        ))}
      </div>
    </>
  );
}

const ANSWER_MOST = 20000; // characters

function Answer() {
  if (!answer.value) return null;
  const text = pretty(answer.value);
  return (
    <details class="data-group" open>
      <summary>
        Answer <small>{Object.keys(answer.value).join(', ')}</small>
      </summary>
      <pre tabIndex={0} aria-label="answer">
        {text.length > ANSWER_MOST
          ? `${text.slice(0, ANSWER_MOST)}\n… ${text.length - ANSWER_MOST} more characters`
          : text}
      </pre>
    </details>
  );
}

export function Form() {
  const [wanted, focusOn] = useState('');
  useEffect(() => {
    void load();
  }, []);
  useEffect(() => {
    if (fields.value.length) follow(look.value.source);
  }, [look.value.source, fields.value.length]);
  useEffect(() => {
    if (!wanted) return;
    const control = document.getElementById(`data-${wanted}`);
    control?.scrollIntoView({ block: 'center' });
    control?.focus({ preventScroll: true });
    focusOn('');
  }, [wanted]);
  if (trouble.value)
    return (
      <div class="trouble" role="alert">
        <p>The fields did not load: {trouble.value}.</p>
        <button
          type="button"
          onClick={() => {
            trouble.value = '';
            void load();
          }}
        >
          Try again
        </button>
      </div>
    );
  const now = computing.value;
  const send = (event: Event): void => {
    event.preventDefault();
    if (computing.peek()) return;
    void compute().then((name) => {
      if (!name) return;
      sought.value = '';
      focusOn(name);
    });
  };
  return (
    <form
      class="data-form"
      aria-label="Request"
      onSubmit={send}
      noValidate
      onKeyDown={(e) => {
        if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) send(e);
      }}
    >
      <div class="data-head">
        <h2>Compute attention of your own numbers</h2>
        <label class="hidden" for="data-search">
          Find a field
        </label>
        <input
          id="data-search"
          type="search"
          placeholder="Find a field"
          value={sought.value}
          onInput={(e) => {
            sought.value = e.currentTarget.value;
          }}
        />
      </div>
      <p class="data-samples">
        Fill in an example:{' '}
        {samples.map(([name, body]) => (
          <button
            type="button"
            key={name}
            onClick={() => {
              answer.value = null;
              fill(body, '');
            }}
          >
            {name}
          </button>
        ))}
        <button type="button" onClick={() => document.getElementById('data-choose')?.click()}>
          a file…
        </button>
      </p>
      {fields.value.length ? <All /> : <p class="hint">Loading the fields…</p>}
      <Answer />
      <div class="data-send">
        {/* Keys, since a click on a button that becomes the other one would send the form. */}
        {now ? (
          <button key="cancel" type="button" onClick={now.cancel}>
            Cancel
          </button>
        ) : (
          <button key="compute" type="submit" class="main" disabled={working.value || !fields.value.length}>
            Compute
          </button>
        )}
        <button
          type="button"
          disabled={now !== null}
          onClick={() => {
            answer.value = null;
            said.value = '';
            fill({}, '');
          }}
        >
          Clear
        </button>
        {now && now.share !== null && <progress max={1} value={now.share} aria-label="share that is done" />}
        <span role="status" class={now || said.value ? '' : 'data-idle'}>
          {now?.text ??
            (said.value || 'The service keeps what it computes as a run, which then opens as a matrix.')}
        </span>
      </div>
    </form>
  );
}
