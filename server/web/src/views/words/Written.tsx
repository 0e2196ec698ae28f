// What a model writes, above its words, and how to get models that people know.
import { useState } from 'preact/hooks';
import { areLoaded, GET, models, SERVE } from '../../shell/models';
import { written } from '../../shell/written';
import { announce } from '../../store/state';

// The text of a model that writes on: what was typed, and what the model has added.
export function Written() {
  const now = written.value;
  if (!now?.goesOn || (!now.added && !now.isGoing)) return null;
  return (
    <p class="words-written" aria-busy={now.isGoing}>
      <bdi>
        {now.asked}
        <b>{now.added}</b>
        {now.isGoing && <span class="words-caret" aria-hidden="true" />}
      </bdi>
    </p>
  );
}

export function HowToGet() {
  const [done, setDone] = useState(false);
  if (!areLoaded.value || models.value.some((m) => m.family)) return null;
  const command = `${GET} && ${SERVE}`;
  return (
    <p class="words-get">
      To see language models, too: <code>{command}</code>
      {'clipboard' in navigator && (
        <button
          type="button"
          onClick={() =>
            void navigator.clipboard.writeText(command).then(
              () => {
                setDone(true);
                announce('command copied');
              },
              () => undefined,
            )
          }
        >
          {done ? 'Copied' : 'Copy'}
        </button>
      )}
    </p>
  );
}
