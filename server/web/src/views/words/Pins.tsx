// The pinned rows as a list of buttons, each of which frees its row.
import { useRef } from 'preact/hooks';
import { dashOf, letterOf, pinColour } from '../../parts/lines';

export function Pins({ names, free }: { names: readonly string[]; free: (pin: number) => void }) {
  const list = useRef<HTMLUListElement>(null);
  if (!names.length) return null;
  // The focus goes on to the next button, or to the words if none is left.
  const go = (pin: number): void => {
    free(pin);
    requestAnimationFrame(() => {
      const buttons = list.current?.querySelectorAll('button') ?? [];
      const next =
        buttons[Math.min(pin, buttons.length - 1)] ??
        document.querySelector<HTMLElement>('.words [role=listbox]');
      next?.focus();
    });
  };
  return (
    <div class="words-pins">
      <span id="words-pinned" class="hidden">
        pinned rows
      </span>
      <ul ref={list} aria-labelledby="words-pinned">
        {names.map((name, i) => (
          <li key={i} style={{ '--pin': pinColour(i) }}>
            <button
              type="button"
              aria-label={`free the row of ${name}`}
              title={`free the row of ${name}`}
              onClick={() => go(i)}
            >
              <b class="words-letter">{letterOf(i)}</b>
              <svg width="30" height="8" viewBox="0 0 30 8" aria-hidden="true">
                <path d="M0 4H30" stroke-dasharray={dashOf(i)} />
              </svg>
              <bdi>{name}</bdi>
              <span aria-hidden="true">×</span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
