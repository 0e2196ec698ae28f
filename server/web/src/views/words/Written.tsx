// What a model writes, above its words.
import { readingOf, sentenceOf } from '../../shell/sentence';
import { queries } from '../../store/run';
import { look } from '../../store/state';
import { writing } from '../../store/writing';
import { proseOf } from '../../parts/join';

// The text of a model that writes on: what was typed, and what the model has added.
export function Written() {
  const asked = sentenceOf(look.value.source);
  const axis = queries.value;
  if (!asked || !readingOf(asked.model).writes || !axis.tokens) return null;
  const all = proseOf(axis.tokens, axis.special);
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
