// Small forms that lead to a position, or to the next token of a text.
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { row } from '../../api/runs';
import { keys, queries, site } from '../../store/run';
import { head, look } from '../../store/state';
import type { Groups } from '../../parts/join';
import { keyGroups, largest, queryGroups } from '../../store/values';

export const jump = signal<'' | 'go' | 'find'>('');

export type Go = (q: number, k: number) => void;

function useFocus<T extends HTMLElement>() {
  const element = useRef<T>(null);
  useEffect(() => {
    element.current?.focus();
  }, []);
  return element;
}

function Position({ go, close }: { go: Go; close: () => void }) {
  const first = useFocus<HTMLInputElement>();
  const second = useRef<HTMLInputElement>(null);
  const at = site.value;
  if (!at) return null;
  const { q, k } = look.value;
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    const to = (field: HTMLInputElement | null, count: number): number =>
      Math.min(Math.max(Math.round(Number(field?.value) || 0), 0), count - 1);
    const query = to(first.current, at.num_queries);
    const key = second.current?.value
      ? to(second.current, at.num_keys)
      : await row(head.value, query).then(
          (found) => largest(found, 1)[0] ?? 0,
          () => 0,
        );
    go(query, key);
    close();
  };
  // what is typed replaces it
  const select = (event: FocusEvent): void => (event.currentTarget as HTMLInputElement).select();
  return (
    <form
      class="matrix-jump"
      onSubmit={(e) => {
        void send(e);
      }}
      aria-label="go to a position"
    >
      <label>
        query{' '}
        <input
          ref={first}
          type="number"
          min={0}
          max={at.num_queries - 1}
          step={1}
          required
          defaultValue={String(Math.max(q, 0))}
          onFocus={select}
        />
      </label>
      <label>
        key{' '}
        <input
          ref={second}
          type="number"
          min={0}
          max={at.num_keys - 1}
          step={1}
          placeholder="largest"
          title="empty: the key with the largest weight of the row"
          defaultValue={k < 0 ? '' : String(k)}
          onFocus={select}
        />
      </label>
      <button type="submit" class="main">
        Go
      </button>
      <button type="button" class="icon" aria-label="close" onClick={close}>
        ×
      </button>
    </form>
  );
}

// The first tokens of words that have this text in them.
const matches = ({ names, first }: Groups, text: string): number[] =>
  first.filter((_, group) => names[group]?.toLowerCase().includes(text));

function Token({ go, close }: { go: Go; close: () => void }) {
  const field = useFocus<HTMLInputElement>();
  const [text, setText] = useState('');
  const [at, setAt] = useState(-1);
  const wanted = text.trim().toLowerCase();
  const found = wanted
    ? [
        ...matches(keyGroups.value, wanted).map((i) => ({ side: 'key', i })),
        ...matches(queryGroups.value, wanted).map((i) => ({ side: 'query', i })),
      ]
    : [];
  const next = (by: number): void => {
    if (!found.length) return;
    const now = (at + by + found.length) % found.length;
    setAt(now);
    const { side, i } = found[now] as { side: string; i: number };
    const { q, k } = look.value;
    if (side === 'key') go(Math.max(q, 0), i);
    else go(i, Math.max(k, 0));
  };
  const now = found[at];
  const says = !(keys.value.tokens || queries.value.tokens)
    ? 'This run has no tokens, only positions.'
    : !wanted
      ? ''
      : !found.length
        ? 'No token has this text.'
        : now
          ? `${now.side} ${now.i}; ${at + 1} of ${found.length}`
          : `${found.length} found; Enter goes to the next`;
  return (
    <form
      class="matrix-jump"
      role="search"
      onSubmit={(e) => {
        e.preventDefault();
        next(1);
      }}
      aria-label="find a token"
    >
      <label>
        token{' '}
        <input
          ref={field}
          type="search"
          value={text}
          autocomplete="off"
          spellcheck={false}
          onInput={(e) => {
            setText(e.currentTarget.value);
            setAt(-1);
          }}
        />
      </label>
      <button
        type="button"
        class="icon"
        aria-label="the token before"
        disabled={!found.length}
        onClick={() => next(-1)}
      >
        ↑
      </button>
      <button type="submit" class="icon" aria-label="the next token" disabled={!found.length}>
        ↓
      </button>
      <span role="status">{says}</span>
      <button type="button" class="icon" aria-label="close" onClick={close}>
        ×
      </button>
    </form>
  );
}

export function Jump({ go, close }: { go: Go; close: () => void }) {
  const shown = jump.value;
  if (!shown) return null;
  return (
    <div
      onKeyDown={(e) => {
        if (e.key === 'Escape') {
          e.preventDefault();
          close();
        }
      }}
    >
      {shown === 'go' ? <Position go={go} close={close} /> : <Token go={go} close={close} />}
    </div>
  );
}
