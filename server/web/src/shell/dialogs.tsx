// Dialogs: the list of keys, sharing, and the question for an API key. The native element keeps the
// focus inside and closes by Esc.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { keyWanted } from '../api/client';
import { lettersAreKeys, theme, type Theme } from '../store/state';
import { everywhere } from './keys';

export const dialog = signal<'' | 'help' | 'share'>('');

export function Dialog({
  title,
  close,
  children,
}: {
  title: string;
  close: () => void;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    element.current?.showModal();
    // Closing a dialog gives the focus back to where it was. Removing an open dialog does not.
    return () => {
      if (document.activeElement === document.body && opener instanceof HTMLElement && opener.isConnected)
        opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      onClose={close}
      aria-label={title}
      onClick={(e) => {
        if (e.target === element.current) element.current?.close();
      }}
    >
      <div class="dialog">
        <header>
          <h2>{title}</h2>
          <button type="button" class="icon" aria-label="close" onClick={() => element.current?.close()}>
            ×
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

const themes: readonly (readonly [Theme, string])[] = [
  ['system', 'as the system'],
  ['light', 'light'],
  ['dark', 'dark'],
  ['contrast', 'high contrast'],
];

export function Help({ keys }: { keys: readonly (readonly [string, string])[] }) {
  return (
    <Dialog
      title="Keys and settings"
      close={() => {
        dialog.value = '';
      }}
    >
      <table class="keys">
        <tbody>
          {[...everywhere, ...keys].map(([key, does]) => (
            <tr key={key}>
              <th scope="row">
                <kbd>{key}</kbd>
              </th>
              <td>{does}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <label class="line">
        <input
          type="checkbox"
          checked={lettersAreKeys.value}
          onChange={(e) => {
            lettersAreKeys.value = e.currentTarget.checked;
          }}
        />{' '}
        letters and digits are keys
      </label>
      <label class="line">
        Theme{' '}
        <select
          value={theme.value}
          onChange={(e) => {
            theme.value = e.currentTarget.value as Theme;
          }}
        >
          {themes.map(([id, name]) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <p>Weights show where a head looks. They do not explain by themselves what a model answers.</p>
      <p>
        <a href="docs">Reference of the service</a>
      </p>
    </Dialog>
  );
}

export function AskForKey() {
  const wanted = keyWanted.value;
  const field = useRef<HTMLInputElement>(null);
  if (!wanted) return null;
  const send = (event: Event): void => {
    event.preventDefault();
    const value = field.current?.value.trim() ?? '';
    if (value) wanted.done(value);
  };
  return (
    <Dialog title="An API key is needed" close={() => wanted.done(null)}>
      <p>{wanted.why}</p>
      <form onSubmit={send}>
        <label class="line">
          Key <input ref={field} type="password" name="key" autocomplete="off" spellcheck={false} autofocus />
        </label>
        <p>It is kept until this tab is closed, and sent to this service alone.</p>
        <button type="submit" class="main">
          Use it
        </button>
      </form>
    </Dialog>
  );
}
