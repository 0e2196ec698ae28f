// The bar at the top: the sentence that a model reads, the head that is shown, undo, share, help.
import { computed } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { nameOfSite } from '../api/answers';
import { canRedo, canUndo, change, redo, undo } from '../store/history';
import { endWriting, make, run, site, working } from '../store/run';
import { look } from '../store/state';
import { Steps } from '../store/steps';
import { writing } from '../store/writing';
import { views } from '../views';
import { dialog } from './dialogs';
import {
  areLoaded,
  completions,
  describe,
  GET,
  groups,
  loadModels,
  loadVocabulary,
  models,
  SERVE,
  unknownWords,
} from './models';
import { ablate, ablatedOf } from './written';
import { beginAnew, MODEL, samplesOf, read, sentenceOf, readingOf } from './sentence';

const PAUSE = 50; // ms without a key before a sentence is sent
const PAUSE_OF_WRITERS = 500; // whose work takes longer

const sentence = computed(() => sentenceOf(look.value.source));

// The models that are there. Until their list is here, the chosen one stands alone in it.
function Models({ chosen, choose }: { chosen: string; choose: (id: string) => void }) {
  const isListed = models.value.some((m) => m.id === chosen);
  return (
    <label class="captioned">
      <span>model</span>
      <select
        value={chosen}
        onFocus={() => void loadModels()}
        onChange={(e) => choose(e.currentTarget.value)}
      >
        {!isListed && <option value={chosen}>{chosen}</option>}
        {areLoaded.value &&
          groups.value.map(([title, list], i) =>
            list.length > 0 ? (
              <optgroup key={title} label={title}>
                {list.map((m) => (
                  <option key={m.id} value={m.id}>
                    {describe(m)}
                  </option>
                ))}
              </optgroup>
            ) : (
              i === 0 && (
                <optgroup key={title} label={title}>
                  <option disabled>
                    none yet: {GET}, then {SERVE}
                  </option>
                </optgroup>
              )
            ),
          )}
      </select>
    </label>
  );
}

const steps = new Steps();

function Sentence() {
  const now = sentence.value;
  const [text, setText] = useState(now?.text ?? '');
  const [model, setModel] = useState(now?.model ?? MODEL); // chosen, though its answer may not be here yet
  const timer = useRef(0);
  const typed = useRef(false);
  const step = useRef(0); // what is typed without a pause is one step for undo
  // When a look is opened or restored by undo, the field shows the sentence of that look.
  useEffect(() => {
    if (!typed.current) setText(now?.text ?? '');
  }, [now?.text]);
  useEffect(() => setModel(now?.model ?? MODEL), [now?.model]);
  const send = (value: string): void => {
    clearTimeout(timer.current);
    typed.current = false;
    if (value.trim() && value !== sentence.value?.text)
      void make(read(value, model, model === now?.model ? ablatedOf(look.value.source) : []), {
        keep: true,
        lasting: () => steps.begins(step.current),
        ...(shows() ? {} : { view: 'words' }),
      });
  };
  const onInput = (value: string): void => {
    setText(value);
    typed.current = true;
    step.current = steps.at('sentence');
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => send(value), readingOf(model).writes ? PAUSE_OF_WRITERS : PAUSE);
  };
  useEffect(() => {
    if (run.value) void loadModels();
  }, [run.value !== null]);
  useEffect(() => {
    loadVocabulary(model);
  }, [model, models.value]);
  const unknown = unknownWords(model, text);
  const offers = completions(model, text);
  return (
    <form
      class="sentence"
      role="search"
      onSubmit={(e) => {
        e.preventDefault();
        send(text);
      }}
    >
      {(now || text || !run.value) && (
        <Models
          chosen={model}
          choose={(id) => {
            clearTimeout(timer.current);
            typed.current = false;
            setModel(id);
            void make(read(text || (samplesOf(id)[0] as string), id));
          }}
        />
      )}
      <label class="hidden" for="sentence">
        {readingOf(model).ask}
      </label>
      <input
        id="sentence"
        list="samples"
        value={text}
        maxLength={2000}
        autocomplete="off"
        placeholder={readingOf(model).ask}
        aria-describedby="unknown"
        onFocus={() => void loadModels()}
        onInput={(e) => onInput(e.currentTarget.value)}
      />
      <datalist id="samples">
        {(offers.length ? offers : samplesOf(model)).map((s) => (
          <option key={s} value={s} />
        ))}
      </datalist>
      <span id="unknown" class="unknown" role="status">
        {unknown.length > 0 && (
          <>
            not known to the model: <bdi>{unknown.join(', ')}</bdi>
          </>
        )}
      </span>
    </form>
  );
}

function Without() {
  const { length } = ablatedOf(look.value.source);
  if (!length) return null;
  const what = length === 1 ? '1 head' : `${length} heads`;
  return (
    <button type="button" class="without" aria-label={`put ${what} back`} onClick={() => ablate([])}>
      without {what} ×
    </button>
  );
}

// What a layer is, in words.
const captions: Record<string, string> = {
  cross: 'layer: decoder looks at encoder',
  encoder: 'layer: encoder looks at itself',
  decoder: 'layer: decoder looks back',
};
const captionOf = (kind: string): string => captions[kind] ?? 'layer';

function Heads() {
  const at = site.value;
  const sites = run.value?.sites ?? [];
  if (!at) return null;
  return (
    <div class="picks">
      <Without />
      {sites.length > 1 && (
        <label class="captioned">
          <span>{captionOf(at.kind)}</span>
          <select
            value={look.value.site}
            onChange={(e) =>
              change({ site: Number(e.currentTarget.value), q: -1, k: -1, pins: [], port: null, range: null })
            }
          >
            {sites.map((s, i) => (
              <option key={s.name} value={i}>
                {nameOfSite(s)}
              </option>
            ))}
          </select>
        </label>
      )}
      {at.num_batches > 1 && (
        <label class="captioned">
          <span>batch</span>
          <select
            value={look.value.batch}
            onChange={(e) => change({ batch: Number(e.currentTarget.value), q: -1, k: -1, pins: [] })}
          >
            {Array.from({ length: at.num_batches }, (_, i) => (
              <option key={i} value={i}>
                {i}
              </option>
            ))}
          </select>
        </label>
      )}
      <label class="captioned">
        <span>head</span>
        <select
          value={String(look.value.head)}
          onChange={(e) =>
            change({ head: e.currentTarget.value === 'mean' ? 'mean' : Number(e.currentTarget.value) })
          }
        >
          {at.num_heads > 1 && <option value="mean">mean of {at.num_heads} heads</option>}
          {Array.from({ length: at.num_heads }, (_, i) => (
            <option key={i} value={i}>
              head {i}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

export function Bar({ title }: { title: string }) {
  return (
    <header class="bar">
      <h1 class="hidden">attnd: see attention, {title}</h1>
      <button type="button" class="brand" title="begin anew" onClick={() => void beginAnew()}>
        <img src={icon()} alt="" width="22" height="22" />
        attnd
      </button>
      <Sentence />
      <Heads />
      <div class="tools">
        {writing.value ? (
          <button type="button" class="main" onClick={endWriting}>
            Stop
          </button>
        ) : (
          working.value && (
            <span class="working" role="status">
              working…
            </span>
          )
        )}
        <button
          type="button"
          class="icon"
          aria-label="undo"
          title="undo (Ctrl+Z)"
          disabled={!canUndo.value}
          onClick={undo}
        >
          ↶
        </button>
        <button
          type="button"
          class="icon"
          aria-label="redo"
          title="redo (Ctrl+Shift+Z)"
          disabled={!canRedo.value}
          onClick={redo}
        >
          ↷
        </button>
        <button
          type="button"
          onClick={() => {
            dialog.value = 'share';
          }}
        >
          Share
        </button>
        <button
          type="button"
          class="icon"
          aria-label="keys and settings"
          title="keys and settings (?)"
          onClick={() => {
            dialog.value = 'help';
          }}
        >
          ?
        </button>
      </div>
    </header>
  );
}

// Whether the view shows a run, so that its sentence is seen there.
const shows = (): boolean => views.find((v) => v.id === look.value.view)?.needs === 'run';

const icon = (): string => document.querySelector<HTMLLinkElement>('link[rel=icon]')?.href ?? '';
