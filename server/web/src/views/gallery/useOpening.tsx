// What a card opens: a run is shown where it is seen best, all else at large.
import type { ComponentChild } from 'preact';
import { useState } from 'preact/hooks';
import { make } from '../../store/run';
import { Case } from './Case';
import { bodyOf, isRun, type Case as One, type Example } from './examples';

export interface Opening {
  open: (of: Example, one: One) => void;
  edit: (one: One) => void;
  larger: (of: Example, one: One) => void;
  large: ComponentChild; // the dialog of what is open at large
}

// By its words if it has any.
const viewOf = (of: One): string => (bodyOf(of).labels ? 'words' : 'matrix');

export function useOpening(): Opening {
  const [opened, setOpened] = useState<{ id: string; of: One } | null>(null);
  const larger = (of: Example, one: One): void => setOpened({ id: of.id, of: one });
  const show = (one: One, view = viewOf(one)): void => {
    setOpened(null);
    void make({ path: 'v1/attention', body: bodyOf(one) }, { view });
  };
  const edit = (one: One): void => show(one, 'data');
  return {
    open: (of, one) => (isRun(one) ? show(one) : larger(of, one)),
    edit,
    larger,
    large: opened && (
      <Case
        id={opened.id}
        of={opened.of}
        close={() => setOpened(null)}
        show={() => show(opened.of)}
        edit={() => edit(opened.of)}
      />
    ),
  };
}
