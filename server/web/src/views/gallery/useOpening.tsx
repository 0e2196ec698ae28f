// What a card opens: a run is shown where it is seen best, all else at large.
import type { ComponentChild } from 'preact';
import { useState } from 'preact/hooks';
import { make } from '../../store/run';
import { Case } from './Case';
import { bodyOf, casesOf, isRun, type Example } from './examples';

export interface Opening {
  open: (of: Example, at: number) => void; // a case by its number in casesOf
  edit: (of: Example, at: number) => void;
  larger: (of: Example, at: number) => void;
  large: ComponentChild; // the dialog of what is open at large
}

// Shows the run of a case. `view` is where; without it the run is shown by its words if it has any.
export async function showCase(of: Example, at: number, view?: string): Promise<void> {
  const one = casesOf(of)[at];
  if (!one) return;
  const body = bodyOf(one);
  await make(
    { path: 'v1/attention', body },
    {
      view: view ?? (body.labels ? 'words' : 'matrix'),
      keep: view !== undefined,
      at: { example: `${of.id}.${at}` },
    },
  );
}

export function useOpening(view?: string): Opening {
  const [opened, setOpened] = useState<{ of: Example; at: number } | null>(null);
  const larger = (of: Example, at: number): void => setOpened({ of, at });
  const show = (of: Example, at: number, where = view): void => {
    setOpened(null);
    void showCase(of, at, where);
  };
  const open = (of: Example, at: number): void => {
    const one = casesOf(of)[at];
    if (one) (isRun(one) ? show : larger)(of, at);
  };
  const edit = (of: Example, at: number): void => show(of, at, 'data');
  return {
    open,
    edit,
    larger,
    large: opened && (
      <Case
        {...opened}
        close={() => setOpened(null)}
        go={(at) => setOpened({ ...opened, at })}
        show={() => show(opened.of, opened.at)}
        edit={() => edit(opened.of, opened.at)}
      />
    ),
  };
}
