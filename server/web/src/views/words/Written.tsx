// What a model writes, above its words, and how to get models that people know.
import { useState } from 'preact/hooks';
import { areLoaded, GET, models, SERVE } from '../../shell/models';
import { readingOf, sentenceOf } from '../../shell/sentence';
import { run } from '../../store/run';
import { announce, look } from '../../store/state';
import { writing } from '../../store/writing';
import { proseOf } from '../../parts/join';

// The text of a model that writes on: what was typed, and what the model has added.
export function Written() {
  const asked = sentenceOf(look.value.source);
  const text = run.value?.texts.at(-1);
  if (!asked || !readingOf(asked.model).writes || !text) return null;
  const all = proseOf(text.tokens, new Set(text.special));
  const now = writing.value?.run === look.value.run ? writing.value : null;
  const isWhole = all.toLowerCase().startsWith(asked.text.trim().toLowerCase());
  const added = now?.text ?? (isWhole ? all.slice(asked.text.trim().length) : '');
  return (
    <p class="words-written" aria-busy={now !== null}>
      <bdi>
        {asked.text}
        <b>{added}</b>
        {now && <span class="words-caret" aria-hidden="true" />}
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
