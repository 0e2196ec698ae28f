// The question of a step, and what the page says to the answer.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Question } from '../../api/lessons';
import { look } from '../../store/state';

type Verdict = 'open' | 'right' | 'wrong';

function Says({ verdict, of }: { verdict: Verdict; of: Question }) {
  return (
    <p class={`lesson-verdict ${verdict}`} role="status">
      {verdict === 'right' && (
        <>
          <b>Right.</b> {of.right}
        </>
      )}
      {verdict === 'wrong' && (
        <>
          <b>Not yet.</b> {of.hint}
        </>
      )}
    </p>
  );
}

function Choices({ of, judge }: { of: Question; judge: (right: boolean) => void }) {
  return (
    <ul class="lesson-choices">
      {(of.choices ?? []).map((choice, i) => (
        <li key={choice}>
          <label>
            <input type="radio" name="lesson-choice" onClick={() => judge(i === of.answer)} />
            <span>{choice}</span>
          </label>
        </li>
      ))}
    </ul>
  );
}

// A number as people of most countries type it.
const read = (text: string): number => Number(text.trim().replace('−', '-').replace(',', '.') || NaN);

function Field({ of, judge }: { of: Question; judge: (right: boolean) => void }) {
  const [text, setText] = useState('');
  return (
    <form
      class="lesson-number"
      onSubmit={(e) => {
        e.preventDefault();
        judge(Math.abs(read(text) - (of.number ?? NaN)) <= (of.within ?? 0) + 1e-9);
      }}
    >
      <input
        aria-label="your answer, a number"
        inputMode="decimal"
        autoComplete="off"
        value={text}
        onInput={(e) => setText(e.currentTarget.value)}
      />
      <button type="submit">Check</button>
    </form>
  );
}

// What is to be chosen on the page: it is judged when something is chosen there.
function Click({ of, judge }: { of: Question; judge: (right: boolean) => void }) {
  const { q, k } = look.value;
  const begun = useRef({ q, k });
  const { query, key } = of.click ?? {};
  useEffect(() => {
    const isNew = q !== begun.current.q || k !== begun.current.k;
    const isWhole = (query === undefined || q >= 0) && (key === undefined || k >= 0);
    if (!isNew || !isWhole) return;
    judge((query === undefined || q === query) && (key === undefined || k === key));
  }, [q, k]);
  const what = query === undefined ? 'a word' : key === undefined ? 'a row' : 'a cell';
  return <p class="lesson-click">Click {what} of the picture, or reach it with Tab, the arrows and Enter.</p>;
}

export function Ask({ of, done, isDone }: { of: Question; done: () => void; isDone: boolean }) {
  const [verdict, setVerdict] = useState<Verdict>('open');
  const judge = (right: boolean): void => {
    setVerdict(right ? 'right' : 'wrong');
    if (right) done();
  };
  const Kind = of.choices ? Choices : of.click ? Click : Field;
  return (
    <section class="lesson-ask" aria-label="Question">
      <p class="lesson-question">
        {of.ask} {isDone && verdict === 'open' && <small>answered before</small>}
      </p>
      <Kind of={of} judge={judge} />
      <Says verdict={verdict} of={of} />
    </section>
  );
}
