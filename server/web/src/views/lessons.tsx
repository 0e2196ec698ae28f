// The lessons, each with its purpose and how far one has come.
import { adopt } from '../parts/adopt';
import { useEffect, useState } from 'preact/hooks';
import { list, type Entry } from '../api/lessons';
import { areLoaded, GET, loadModels, models, SERVE } from '../shell/models';
import { open, openFile, refused } from '../shell/lessons/give';
import { doneOf } from '../store/lesson';
import css from './lessons.css' with { type: 'text' };

adopt(css);

function Row({ of, number }: { of: Entry; number: number }) {
  const done = doneOf(of.id).length;
  const isMissing = of.needs && areLoaded.value && !models.value.some((m) => m.id === of.needs);
  const next = doneOf(of.id).length < of.num_steps ? doneOf(of.id).length : 0;
  return (
    <li class="lessons-row">
      <span class="lessons-number" aria-hidden="true">
        {number}
      </span>
      <div>
        <h3>
          <button type="button" disabled={!!isMissing} onClick={() => void open(of.id, next)}>
            {of.title}
          </button>
        </h3>
        <p>{of.purpose}</p>
        {isMissing && (
          <p class="lessons-missing">
            It needs the model {of.needs}. Get it with <code>{GET}</code>, and start <code>{SERVE}</code>.
          </p>
        )}
        <small>
          {of.num_steps} steps, about {of.minutes} minutes
        </small>
      </div>
      <div class="lessons-progress">
        <progress max={of.num_steps} value={done} aria-label={`steps done of ${of.title}`} />
        <small>{done === of.num_steps ? 'done' : done ? `${done} of ${of.num_steps}` : 'not begun'}</small>
      </div>
    </li>
  );
}

export function Component() {
  const [all, setAll] = useState<Entry[] | null>(null);
  const [fault, setFault] = useState('');
  useEffect(() => {
    loadModels();
    list().then(setAll, (error: Error) => setFault(error.message));
  }, []);
  return (
    <div
      class="lessons"
      onDragOver={(e) => e.preventDefault()}
      onDrop={(e) => {
        e.preventDefault();
        const [file] = e.dataTransfer?.files ?? [];
        if (file) void openFile(file);
      }}
    >
      <header>
        <h2>Lessons</h2>
        <p>Each step shows something on this page and asks a question about it. Nothing is sent anywhere.</p>
      </header>
      {(fault || refused.value) && (
        <p class="trouble bad" role="alert">
          {fault || refused.value}
        </p>
      )}
      <ol class="lessons-list">
        {(all ?? []).map((entry, i) => (
          <Row key={entry.id} of={entry} number={i + 1} />
        ))}
      </ol>
      <p class="lessons-own">
        <label>
          Your own lesson, a JSON file:{' '}
          <input
            type="file"
            accept=".json,application/json"
            onChange={(e) => {
              const [file] = e.currentTarget.files ?? [];
              if (file) void openFile(file);
            }}
          />
        </label>
      </p>
    </div>
  );
}
