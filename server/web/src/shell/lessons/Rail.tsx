// The rail beside the view: a step of the lesson that is given, with its question.
import { adopt } from '../../parts/adopt';
import { useEffect, useRef } from 'preact/hooks';
import type { Lesson } from '../../api/lessons';
import { areLoaded, GET, loadModels, models, SERVE } from '../models';
import { doneOf, forget, presenting, running, tick } from '../../store/lesson';
import { announce, run } from '../../store/state';
import { Ask } from './Ask';
import { Figure } from './Figure';
import { end, go, linkTo, present } from './give';
import { Text } from './Text';
import css from './lessons.css' with { type: 'text' };

adopt(css);

// The parts of the page that a step may light.
const parts: Record<string, string> = {
  view: 'main',
  cell: '.cell',
  heads: '.picks',
  tabs: '.tabs',
};

function useLight(part: string | undefined): void {
  useEffect(() => {
    const found = document.querySelector(parts[part ?? ''] ?? 'no-part');
    found?.classList.add('lesson-lit');
    return () => found?.classList.remove('lesson-lit');
  });
}

// The whole lesson on paper, with its questions and without their answers.
function Paper({ of }: { of: Lesson }) {
  return (
    <div class="lesson-paper">
      <h1>{of.title}</h1>
      <p>{of.purpose}</p>
      {of.steps.map(({ title, text, question, figure }, i) => (
        <section key={title}>
          <h2>
            {i + 1}. {title}
          </h2>
          <Text of={text} />
          {figure && <Figure of={figure} />}
          {question && (
            <>
              <p class="lesson-question">{question.ask}</p>
              {question.choices && (
                <ul>
                  {question.choices.map((c) => (
                    <li key={c}>{c}</li>
                  ))}
                </ul>
              )}
              {!question.choices && <p>……………………………</p>}
            </>
          )}
        </section>
      ))}
    </div>
  );
}

function Missing({ model }: { model: string }) {
  useEffect(() => {
    void loadModels();
  }, []);
  if (!areLoaded.value || models.value.some((m) => m.id === model)) return null;
  return (
    <p class="lesson-missing">
      This lesson needs the model {model}, which this service does not have. Get it with <code>{GET}</code>,
      and start <code>{SERVE}</code>.
    </p>
  );
}

export function Component() {
  const title = useRef<HTMLHeadingElement>(null);
  const now = running.value;
  const step = now?.lesson.steps[now.step];
  useLight(step?.highlight);
  useEffect(() => title.current?.focus(), [now?.lesson, now?.step]);
  useEffect(() => {
    const leave = (): void => {
      if (!document.fullscreenElement && presenting.value) present(false);
    };
    document.addEventListener('fullscreenchange', leave);
    return () => document.removeEventListener('fullscreenchange', leave);
  }, []);
  if (!now || !step) return null;
  const { lesson, step: at } = now;
  const count = lesson.steps.length;
  const done = doneOf(lesson.id);
  const isLast = at === count - 1;
  const next = (): void => {
    if (!step.question) tick(lesson.id, at);
    if (isLast) end();
    else go(at + 1);
  };
  const restart = (): void => {
    forget(lesson.id);
    go(0);
  };
  const copy = (): void => {
    void navigator.clipboard?.writeText(linkTo(now)).then(() => announce('the link is copied'));
  };
  return (
    <>
      <aside class="lesson" aria-label={`Lesson: ${lesson.title}`}>
        <header>
          <span class="lesson-name">{lesson.title}</span>
          <button
            type="button"
            class="icon"
            aria-label="Close the lesson"
            title="Close the lesson"
            onClick={end}
          >
            ✕
          </button>
        </header>
        <ol class="lesson-steps" aria-label="Steps">
          {lesson.steps.map((s, i) => (
            <li key={s.title}>
              <button
                type="button"
                aria-label={`step ${i + 1}: ${s.title}${done.includes(i) ? ', done' : ''}`}
                title={s.title}
                aria-current={i === at ? 'step' : undefined}
                data-done={done.includes(i)}
                onClick={() => go(i)}
              />
            </li>
          ))}
        </ol>
        <div class="lesson-body">
          <p class="lesson-count">
            Step {at + 1} of {count}
          </p>
          <h2 ref={title} tabIndex={-1}>
            {step.title}
          </h2>
          {lesson.needs && <Missing model={lesson.needs} />}
          <Text of={step.text} />
          {step.figure && <Figure of={step.figure} />}
          {step.question && (
            <Ask
              key={`${lesson.id} ${at} ${step.question.click ? run.value?.id : ''}`}
              of={step.question}
              isDone={done.includes(at)}
              done={() => tick(lesson.id, at)}
            />
          )}
        </div>
        <footer>
          <div class="lesson-moves">
            <button type="button" disabled={at === 0} onClick={() => go(at - 1)}>
              Back
            </button>
            <button type="button" class="main" onClick={next}>
              {isLast ? 'Finish' : 'Next'}
            </button>
          </div>
          <div class="lesson-tools">
            <button type="button" aria-pressed={presenting.value} onClick={() => present(!presenting.value)}>
              {presenting.value ? 'Leave' : 'Present'}
            </button>
            <button type="button" onClick={restart}>
              Reset
            </button>
            <button type="button" onClick={() => print()}>
              Print
            </button>
            {now.name && (
              <button type="button" onClick={copy}>
                Copy link
              </button>
            )}
          </div>
        </footer>
      </aside>
      <Paper of={lesson} />
    </>
  );
}
